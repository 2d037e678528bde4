// upthread for OpenCode 1.18: a `task` of a configured role goes on in its earlier session.
//
// The decision is made by the hook program; this file carries it out. `task_id` is set in place,
// since OpenCode ignores a new `args` object. A child is learned from the running part of the call,
// so that one that fails or is aborted is known too. A toast is gone in seconds, so what was decided
// also stands in the task's description, which is what OpenCode shows of it and names the child by
// (one that fails has no result), and whole in the result's metadata. A child in the background has
// ended when its main session is told so. Whatever goes wrong here, OpenCode goes on.
import { spawn } from "node:child_process"
import { existsSync } from "node:fs"

const COMMAND = __COMMAND__
const LAUNCHER = COMMAND[1]
const ANSWER_TIME_MAX_MS = 10000
const ANSWER_CHARACTERS_MAX = 8 * 1024 * 1024
const TRIES_MAX = 4
const EXAMINING = { read: "read", edit: "wrote", write: "wrote", patch: "wrote" }
const TRACE_CHARACTERS_MAX = 100
const TRACE = " · upthread: "
const NOTE = "The earlier session of a role is continued by itself; leave task_id out."

const ask = (request) =>
  new Promise((resolve) => {
    if (!existsSync(LAUNCHER)) {
      const cure = "upthread setup opencode mends it, upthread setup opencode --remove takes the plug-in away"
      return resolve({ gone: `upthread: ${LAUNCHER} is gone, so this session goes on without it; ${cure}` })
    }
    const child = spawn(COMMAND[0], COMMAND.slice(1), { cwd: "/", stdio: ["pipe", "pipe", "ignore"] })
    let text = ""
    const failed = (why) => resolve({ line: `upthread: UNDECIDED, OpenCode goes on without it: ${why}` })
    const timer = setTimeout(() => { child.kill("SIGKILL"); failed("the hook took too long") }, ANSWER_TIME_MAX_MS)
    child.on("error", (error) => { clearTimeout(timer); failed(error.message) })
    child.stdin.on("error", () => {})
    child.stdout.on("data", (piece) => { if (text.length < ANSWER_CHARACTERS_MAX) text += piece })
    child.on("close", (code, signal) => {
      clearTimeout(timer)
      if (code !== 0) return failed(`the hook was stopped (${signal ?? `exit code ${code}`})`)
      try { resolve(text ? JSON.parse(text) : {}) } catch (error) { failed(error.message) }
    })
    child.stdin.end(JSON.stringify({ pid: process.pid, ...request }))
  })

const TASK = /^<task id="(ses_\w+)"[^>]*state="(\w+)"/   // what OpenCode 1.18 says of one in the background
const reply = (output) => /<task_result>\n?([\s\S]*?)\n?<\/task_result>/.exec(output)?.[1] ?? output

// "upthread: spec-1/planner: RESUMED ses_1 · turn 2" beside a description; one the model has copied
// from an earlier call is replaced.
const traced = (description, line) => {
  const said = line.replace(/^upthread: /, "")
  const short = said.length > TRACE_CHARACTERS_MAX ? `${said.slice(0, TRACE_CHARACTERS_MAX)}…` : said
  return `${String(description ?? "").split(TRACE)[0]}${TRACE}${short}`
}

export const Upthread = async ({ client, directory }) => {
  const calls = new Map()      // call id -> { request, child, taskId }
  const children = new Map()   // child session -> [{ path, how }, ...]

  const models = new Map()     // child session -> the newest message of its model
  const windows = new Map()    // "provider/model" -> tokens

  const toldGone = new Set()   // main sessions that know that upthread is gone

  const tell = async (request) => {
    const told = await ask({ cwd: directory, ...request })
    if (!told.gone) return told
    const isChilds = request.event === "prompt" && calls.size > 0
    if (!isChilds && !toldGone.has(request.session)) {
      toldGone.add(request.session)
      show(told.gone, "warning")
      client.app.log({ body: { service: "upthread", level: "warn", message: told.gone } }).catch(() => {})
    }
    return {}
  }
  const show = (line, variant = "info") => {
    if (line) client.tui.showToast({ body: { message: line, variant, duration: 8000 } }).catch(() => {})
  }

  // What OpenCode would do with an id it does not know: a new session, silently. So it is asked first.
  // Whose agent it was last does not matter: a turn of `upthread tell` goes on in it as another one.
  const unusable = async (id) => {
    const found = await client.session.get({ path: { id } }).catch(() => ({}))
    if (!found.data) return "missing"
    const states = await client.session.status().catch(() => ({}))
    const state = states.data?.[id]?.type
    return state && state !== "idle" ? "busy" : null
  }

  const decide = async (request) => {
    const known = {}
    for (let tries = 0; tries < TRIES_MAX; tries += 1) {
      const told = await tell({ ...request, event: "before", unusable: known })
      const fault = told.task_id ? await unusable(told.task_id) : null
      if (!fault) return told
      known[told.task_id] = fault
    }
    return { line: "upthread: UNDECIDED, OpenCode goes on without it: no session could be used" }
  }

  const windowOf = async (message) => {
    if (!message) return 0
    if (!windows.size) {
      const told = await client.config.providers().catch(() => ({}))
      for (const provider of told.data?.providers ?? []) {
        for (const [id, model] of Object.entries(provider.models ?? {})) windows.set(`${provider.id}/${id}`, model.limit?.context)
      }
    }
    return windows.get(`${message.providerID}/${message.modelID}`) ?? 0
  }

  const end = async (callID, outcome, said) => {
    const call = calls.get(callID)
    if (!call) return
    calls.delete(callID)
    const files = children.get(call.child) ?? []
    children.delete(call.child)
    const window = await windowOf(models.get(call.child))
    models.delete(call.child)
    const told = await tell({ ...call.request, event: "ended", child: call.child ?? "", outcome, reply: said, files, window })
    show(told.line, "warning")
  }

  // Where a user would speak OpenCode says that a child in the background has ended.
  const hear = async (part) => {
    const [, child, state] = (part.synthetic && TASK.exec(part.text)) || []
    if (!child || state === "running") return
    for (const [callID, call] of calls) {
      if (call.child !== child || !call.isInBackground) continue
      await end(callID, state === "completed" ? "ok" : "unknown", reply(part.text))
    }
  }

  const watch = async (part) => {
    if (part.type === "text") return hear(part)
    const call = part.type === "tool" && part.tool === "task" ? calls.get(part.callID) : undefined
    if (!call) return
    const child = part.state.metadata?.sessionId
    if (child && !call.child) {
      call.child = child
      children.set(child, [])
      const told = await tell({ ...call.request, event: "started", child })
      show(told.line, "warning")
    }
    if (part.state.status === "error") {
      await end(part.callID, /abort|interrupt|cancel/i.test(part.state.error) ? "cancelled" : "unknown", part.state.error)
    }
  }

  return {
    "chat.message": async (input, output) => {
      if (calls.size && [...calls.values()].some((call) => call.child === input.sessionID)) return
      if (output.parts.length && output.parts.every((part) => part.synthetic)) return   // nobody has asked
      const text = output.parts.filter((part) => part.type === "text" && !part.synthetic).map((part) => part.text).join("\n")
      const told = await tell({ event: "prompt", session: input.sessionID, prompt: text })
      show(told.line, "warning")
    },
    "tool.execute.before": async (input, output) => {
      if (input.tool !== "task" || !output.args) return
      const { subagent_type: role, prompt, task_id: named, background } = output.args
      const request = { session: input.sessionID, call_id: input.callID, role, prompt, is_background: background === true }
      const isThere = named && (await unusable(named)) !== "missing"
      if (named && !isThere) delete output.args.task_id
      const told = isThere
        ? { ...(await tell({ ...request, event: "named", child: named })), task_id: named }
        : await decide({ ...request, named: String(named ?? "") })
      if (told.refused) { show(told.line, "error"); throw new Error(told.refused) }
      calls.set(input.callID, { request, taskId: told.task_id, line: told.is_traced === false ? "" : told.line })
      if (told.task_id) output.args.task_id = told.task_id
      if (told.prompt) output.args.prompt = told.prompt
      if (told.line && told.is_traced !== false) output.args.description = traced(output.args.description, told.line)
      show(told.line)
    },
    "tool.execute.after": async (input, output) => {
      const examined = EXAMINING[input.tool]
      if (examined && input.args?.filePath) children.get(input.sessionID)?.push({ path: input.args.filePath, how: examined })
      const call = input.tool === "task" ? calls.get(input.callID) : undefined
      if (!call) return
      const child = output?.metadata?.sessionId
      if (call.taskId && child !== call.taskId) {
        const told = await tell({ event: "replaced", session: input.sessionID })
        show(told.line, "error")
      }
      if (call.line && output) output.metadata = { ...output.metadata, upthread: call.line }
      call.child = child ?? call.child
      call.isInBackground = TASK.exec(output?.output ?? "")?.[2] === "running"
      if (call.isInBackground) return
      await end(input.callID, "ok", reply(output?.output ?? ""))
    },
    event: async ({ event }) => {
      if (event.type === "message.part.updated") await watch(event.properties.part)
      if (event.type !== "message.updated") return
      const { info } = event.properties
      if (info.role === "assistant" && children.has(info.sessionID)) models.set(info.sessionID, info)
    },
    "tool.definition": async (input, output) => {
      if (input.toolID === "task") output.description += `\n\n${NOTE}`
    },
  }
}
