// upthread for an OpenCode that it has started: asked before each tool call, whatever is allowed.
//
// What is held back does not run, and neither does what nobody answers: then upthread has gone, and
// this server goes after it. OpenCode may load a plug-in more than once, and commands inherit its
// environment, so the address is taken out of it once and kept.
import { connect } from "node:net"

const KEY = Symbol.for("upthread.calls")
globalThis[KEY] ??= process.env.UPTHREAD_CALLS
delete process.env.UPTHREAD_CALLS
const [host, port, token] = (globalThis[KEY] ?? "").split(" ")

const ask = (question) =>
  new Promise((resolve, reject) => {
    const gone = (why) => reject(new Error(`upthread does not answer, so this is not run: ${why}`))
    let text = ""
    const socket = connect(Number(port), host, () => socket.write(`${JSON.stringify({ ...question, token })}\n`))
    socket.on("data", (piece) => { text += piece })
    socket.on("error", (error) => gone(error.message))
    socket.on("close", () => { try { resolve(JSON.parse(text) ?? {}) } catch { gone("it said nothing") } })
  })

export const UpthreadGate = async () => ({
  "tool.execute.before": async ({ tool, sessionID, callID }, { args }) => {
    if (!port) return
    const { held } = await ask({ session: sessionID, call: callID, tool, arguments: args })
    // Another program may have the port by now: only an empty text of ours lets the call run.
    if (held !== "") throw new Error(held || "upthread does not answer, so this is not run: that was another program")
  },
})
