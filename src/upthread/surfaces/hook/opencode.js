// upthread for OpenCode: what is delegated to a configured role goes on in its earlier session.
// `server` is for 1.18, tried on it; `setup` for 2, whose plug-in interface is another one: written
// from its public source of November 2026, and not tried on the real OpenCode 2.
//
// The hook program decides and this file carries it out. `task_id` is set in place, because OpenCode
// ignores a new `args` object. The running part of a call names the child, also of a call that fails.
// A toast is gone in seconds, so the decision also stands in the task's description and whole in the
// result's metadata. OpenCode names a new child by the description, so the child gets its own title
// back. A child in the background has ended when its main session is told so. Whatever goes wrong
// here, OpenCode goes on.
import { spawn } from "node:child_process"
import { existsSync } from "node:fs"

const COMMAND = __COMMAND__
const LAUNCHER = COMMAND[1]
const ANSWER_TIME_MAX_MS = 10000
const ANSWER_CHARACTERS_MAX = 8 * 1024 * 1024
const TRIES_MAX = 4
// Tools that reach nothing beyond the working tree: the guard is not asked about them.
const QUIET = new Set(["read", "edit", "multiedit", "write", "patch", "apply_patch", "glob", "grep", "list", "lsp", "todowrite", "todoread", "skill", "question", "task", "subagent"])
const guard = async (tell, session, call_id, tool, args) =>
  QUIET.has(tool) ? {} : tell({ event: "guard", session, call_id, tool, arguments: args ?? {} })
const TRACE_CHARACTERS_MAX = 100
const TRACE = " · upthread: "
const note = (name) => `\n\nThe earlier session of a role is continued by itself; leave ${name} out.`

// A call is decided once those before it are on record.
const ending = new Set()
const lasting = (record) => {
  const done = record().finally(() => ending.delete(done))
  ending.add(done)
  return done
}

const ask = (request) =>
  new Promise((resolve) => {
    if (!existsSync(LAUNCHER)) {
      const cure = "upthread setup opencode mends it, upthread setup opencode --remove takes the plug-in away"
      return resolve({ gone: `upthread: ${LAUNCHER} is gone, so this session goes on without it; ${cure}` })
    }
    const words = request.event === "guard" ? ["Guard"] : []
    const child = spawn(COMMAND[0], [...COMMAND.slice(1), ...words], { cwd: "/", stdio: ["pipe", "pipe", "ignore"] })
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

// The line beside a description. It replaces a line that the model copied from an earlier call.
const traced = (description, line) => {
  const said = line.replace(/^upthread: /, "")
  const short = said.length > TRACE_CHARACTERS_MAX ? `${said.slice(0, TRACE_CHARACTERS_MAX)}…` : said
  return `${String(description ?? "").split(TRACE)[0]}${TRACE}${short}`
}

// A session that the model has `named` itself is used, if OpenCode has it. Otherwise upthread decides,
// and is asked again for as long as OpenCode cannot use the session that it returns.
const decide = async (request, named, tell, unusable, busy = []) => {
  const wrong = named ? await unusable(named, request.session) : "missing"
  if (wrong === null || wrong === "busy") return { ...(await tell({ ...request, event: "named", child: named })), task_id: named }
  const known = Object.fromEntries(busy.map((id) => [id, "busy"]))
  await Promise.allSettled(ending)
  for (let tries = 0; tries < TRIES_MAX; tries += 1) {
    const told = await tell({ ...request, event: "before", named: String(named ?? ""), unusable: known })
    const fault = told.task_id ? await unusable(told.task_id, request.session) : null
    if (!fault) return told
    known[told.task_id] = fault
  }
  return { line: "upthread: UNDECIDED, OpenCode goes on without it: no session could be used" }
}

// Returns how upthread is asked; the first time in a main session that upthread is gone, `say` says so.
const teller = (directoryOf, say, isChilds = () => false) => {
  const toldGone = new Set()
  return async (request) => {
    const told = await ask({ cwd: await directoryOf(request.session), ...request })
    if (!told.gone) return told
    if (!isChilds(request) && !toldGone.has(request.session)) {
      toldGone.add(request.session)
      say(told.gone)
    }
    return {}
  }
}

// --- OpenCode 1.18 ---------------------------------------------------------------------------------

const server = async ({ client, directory }) => {
  const calls = new Map()      // call id -> { request, title, child, taskId }
  const models = new Map()     // child session -> the newest message of its model
  const windows = new Map()    // "provider/model" -> tokens

  const show = (line, variant = "info") => {
    if (line) client.tui.showToast({ body: { message: line, variant, duration: 8000 } }).catch(() => {})
  }
  const sayGone = (gone) => {
    show(gone, "warning")
    client.app.log({ body: { service: "upthread", level: "warn", message: gone } }).catch(() => {})
  }
  const tell = teller(() => directory, sayGone, (request) => request.event === "prompt" && calls.size > 0)
  const record = async (request, variant = "warning") => show((await tell(request)).line, variant)

  // OpenCode begins a new session, silently, for an id that it does not know. So it is asked first.
  const unusable = async (id) => {
    const found = await client.session.get({ path: { id } }).catch(() => ({}))
    return found.data ? null : "missing"
  }
  const busy = async () => {
    const states = await client.session.status().catch(() => ({}))
    return Object.entries(states.data ?? {}).filter(([, state]) => state.type !== "idle").map(([id]) => id)
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
    await lasting(async () => {
      const window = await windowOf(models.get(call.child))
      models.delete(call.child)
      await record({ ...call.request, event: "ended", child: call.child ?? "", outcome, reply: said, window })
    })
  }

  // Where a user would speak OpenCode says that a child in the background has ended.
  const hear = async (part) => {
    const [, child, state] = (part.synthetic && TASK.exec(part.text)) || []
    if (!child || state === "running") return
    for (const [callID, call] of calls) {
      if (call.child === child && call.isInBackground) await end(callID, state === "completed" ? "ok" : "unknown", reply(part.text))
    }
  }

  const watch = async (part) => {
    if (part.type === "text") return hear(part)
    const call = part.type === "tool" && part.tool === "task" ? calls.get(part.callID) : undefined
    if (!call) return
    const child = part.state.metadata?.sessionId
    if (child && !call.child) {
      call.child = child
      models.set(child, undefined)
      if (!call.taskId) client.session.update({ path: { id: child }, body: { title: call.title } }).catch(() => {})
      await record({ ...call.request, event: "started", child })
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
      await record({ event: "prompt", session: input.sessionID, prompt: text })
    },
    "tool.execute.before": async (input, output) => {
      const { held, line } = await guard(tell, input.sessionID, input.callID, input.tool, output.args)
      show(line, "error")
      if (held) throw new Error(held)
      if (input.tool !== "task" || !output.args) return
      const { subagent_type: role, prompt, task_id: named, background } = output.args
      const request = { session: input.sessionID, call_id: input.callID, role, prompt, is_background: background === true }
      const told = await decide(request, named, tell, unusable, await busy())
      if (told.refused) { show(told.line, "error"); throw new Error(told.refused) }
      const title = `${String(output.args.description ?? "").split(TRACE)[0]} (@${role} subagent)`
      calls.set(input.callID, { request, title, taskId: told.task_id, line: told.is_traced === false ? "" : told.line })
      if (told.task_id) output.args.task_id = told.task_id
      else delete output.args.task_id
      if (told.prompt) output.args.prompt = told.prompt
      if (told.line && told.is_traced !== false) output.args.description = traced(output.args.description, told.line)
      show(told.line)
    },
    "tool.execute.after": async (input, output) => {
      const call = input.tool === "task" ? calls.get(input.callID) : undefined
      if (!call) return
      const child = output?.metadata?.sessionId
      if (call.taskId && child !== call.taskId) await record({ event: "replaced", session: input.sessionID }, "error")
      if (call.line && output) output.metadata = { ...output.metadata, upthread: call.line }
      call.child = child ?? call.child
      call.isInBackground = TASK.exec(output?.output ?? "")?.[2] === "running"
      if (!call.isInBackground) await end(input.callID, "ok", reply(output?.output ?? ""))
    },
    event: async ({ event }) => {
      if (event.type === "message.part.updated") await watch(event.properties.part)
      if (event.type !== "message.updated") return
      const { info } = event.properties
      if (info.role === "assistant" && models.has(info.sessionID)) models.set(info.sessionID, info)
    },
    "tool.definition": async (input, output) => {
      if (input.toolID === "task") output.description += note("task_id")
    },
  }
}

// --- OpenCode 2 ------------------------------------------------------------------------------------
//
// The tool is `subagent`, and takes a session of the calling one alone: another main session's is
// refused by OpenCode, so it is not named, and what was said goes into the prompt. It tells the child
// in its progress, in its result, and in what a failed call says. There are no toasts for a server's
// plug-in: what was decided stands in the description and in the result's metadata.

const SAID_CHILD = /\(sessionID: (ses_\w+)\)/   // in what a call that failed, or went on behind, says

const setup = async (ctx) => {
  const calls = new Map()      // call id -> { request, child, taskId, line, isInBackground }
  const children = new Map()   // child session -> { said }
  let isOver = false

  const sessionOf = (id) => ctx.session.get({ sessionID: id }).catch(() => undefined)
  const directoryOf = async (id) => (await sessionOf(id))?.location?.directory ?? process.cwd()
  const tell = teller(directoryOf, console.error)

  const unusable = async (id, main) => {
    const found = await sessionOf(id)
    if (!found) return "missing"
    if (found.parentID !== main) return "elsewhere"
    return [...calls.values()].some((call) => call.child === id) ? "busy" : null
  }

  const begin = async (call, child) => {
    if (!child || call.child) return
    call.child = child
    children.set(child, { said: "" })
    await tell({ ...call.request, event: "started", child })
  }

  const end = async (id, outcome, said) => {
    const call = calls.get(id)
    if (!call) return
    calls.delete(id)
    children.delete(call.child)
    await lasting(() => tell({ ...call.request, event: "ended", child: call.child ?? "", outcome, reply: said }))
  }

  const before = async (event) => {
    const { held } = await guard(tell, event.sessionID, event.id, event.tool, event.input)
    if (held) throw new Error(held)
    if (event.tool !== "subagent" || !event.input) return
    const { agent: role, prompt, sessionID: named, background, description } = event.input
    const request = {
      session: event.sessionID, call_id: event.id, role, prompt, is_background: background === true, only_own: true,
    }
    const told = await decide(request, named, tell, unusable)
    if (told.refused) throw new Error(told.refused)
    const isTraced = told.line && told.is_traced !== false
    calls.set(event.id, { request, taskId: told.task_id, line: isTraced ? told.line : "" })
    const { sessionID: _, ...input } = event.input
    event.input = {
      ...input,
      ...(told.task_id ? { sessionID: told.task_id } : {}),
      ...(told.prompt ? { prompt: told.prompt } : {}),
      ...(isTraced ? { description: traced(description, told.line) } : {}),
    }
  }

  const after = async (event) => {
    const call = event.tool === "subagent" ? calls.get(event.id) : undefined
    if (!call) return
    const failed = event.status === "error" ? String(event.error?.message ?? event.error ?? "") : ""
    const output = event.result?.output
    const child = output?.sessionID ?? SAID_CHILD.exec(failed)?.[1]
    await begin(call, child)
    if (call.taskId && child && child !== call.taskId) await tell({ event: "replaced", session: event.sessionID })
    if (event.status === "error") return end(event.id, /cancel|interrupt|abort/i.test(failed) ? "cancelled" : "unknown", failed)
    if (call.line) event.result = { ...event.result, metadata: { ...event.result?.metadata, upthread: call.line } }
    call.isInBackground = output?.status === "running"
    if (!call.isInBackground) await end(event.id, "ok", String(output?.output ?? ""))
  }

  const ENDS = { succeeded: "ok", failed: "unknown", interrupted: "cancelled" }

  const hear = async (event) => {
    const told = event.data ?? event.properties ?? event
    if (event.type === "session.tool.progress") {
      const call = calls.get(told.callID)
      if (call) await begin(call, told.structured?.sessionID ?? told.metadata?.sessionID)
    }
    if (event.type === "session.text.ended" && children.has(told.sessionID)) children.get(told.sessionID).said = told.text
    const outcome = ENDS[/^session\.execution\.(\w+)$/.exec(event.type)?.[1]]
    for (const [id, call] of outcome ? calls : []) {
      if (call.isInBackground && call.child === told.sessionID) await end(id, outcome, children.get(call.child)?.said ?? "")
    }
  }

  const listen = async () => {
    for await (const event of ctx.event.subscribe()) {
      if (isOver) return
      await hear(event)
    }
  }

  await ctx.tool.hook("execute.before", before)
  await ctx.tool.hook("execute.after", after)
  await ctx.session.hook("prompt", async (event) => {
    const session = await sessionOf(event.sessionID)
    if (session?.parentID) return   // a sub-agent's: no person has said it
    await tell({ event: "prompt", session: event.sessionID, prompt: String(event.prompt?.text ?? "") })
  })
  await ctx.session.hook("context", (event) => {
    if (event.tools?.subagent) event.tools.subagent.description += note("sessionID")
  })
  // Not waited for: nothing of OpenCode's may wait for it. Without it a child in the background has no end.
  listen().catch((error) => console.error(`upthread: sub-agents in the background are not heard: ${error.message}`))
  return () => { isOver = true }
}

export default { id: "upthread", setup, server }
