# upthread's launcher, written by `upthread setup`, which writes it anew; what is changed here is lost.
# Agents call it as: /bin/sh LAUNCHER AGENT [EVENT]. It starts the upthread that was set up last, and
# once that is gone says so, once in each session, and lets the agent go on. It starts nothing that it
# would have to look up, and reads nothing of the environment.
home=__HOME__
python=__PYTHON__
package=__PACKAGE__
agent=$1
event=$2

if [ ! -x "$python" ]; then
  gone=__PYTHON_IN_JSON__
elif [ ! -f "$package/surfaces/hook/__main__.py" ]; then
  gone=__PACKAGE_IN_JSON__
else
  case $agent in
    mcp) exec "$python" -I "$package/boundary/isolated.py" upthread "$@" ;;
    status-line) exec "$python" -I -S "$package/surfaces/status_line.py" "$home" __LIBRARIES__ ;;
    *) exec "$python" -I -S "$package/surfaces/hook/__main__.py" "$agent" "$home" "$event" __LIBRARIES__ ;;
  esac
fi

name=$agent
[ "$agent" != claude-code ] || name=claude
why="upthread: $gone is gone, so this session goes on without it; upthread setup $name mends it"
case $agent in
  mcp) printf '%s\n' "upthread: $gone is gone; upthread setup codex mends it" >&2; exit 1 ;;
  status-line) printf '%s\n' "upthread: gone; upthread setup claude mends it"; exit 0 ;;
  opencode | probe) printf '{"gone": "%s"}\n' "$why"; exit 0 ;;
esac

# Once in a session: at its start by its id, and where it had begun before, by the agent's process.
told="$home/hooks/gone/$agent-$PPID"
if [ "$event" = SessionStart ]; then
  IFS= read -r request
  rest=${request#*\"session_id\":*\"}
  session=${rest%%\"*}
  case $session in
    '' | *[!A-Za-z0-9_-]*) ;;
    *) ( : > "$told" ) 2> /dev/null; told="$home/hooks/gone/$agent-$session" ;;
  esac
fi
[ ! -e "$told" ] || exit 0
( : > "$told" ) 2> /dev/null
printf '{"systemMessage": "%s"}\n' "$why"
exit 0
