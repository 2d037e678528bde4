"""What certainly does nothing but read; of all else it is not certain."""

import pytest

from upthread.core.outward.shell_commands import COMMAND_CHARACTERS_MAX
from upthread.core.shell.read_only import only_reads

READS = (
    *("cat a", "cat -n 'a b' | head -2", "cat < a", "cat a && ls; pwd", "cat a 2>/dev/null"),
    *("cat a 2>&1", "cat a > /dev/null", "sed -n 1,80p a", "sed -n '1,$p' a", "rg -n word src"),
    *("grep -rn word .", "find . -name 'a.py'", "sort -r a", "bash -lc 'cat a'", "cat *.py"),
    *("/bin/bash -lc \"sh -c 'cat a'\"", "tail -n +3 a", "sort -- a"),
)
NOT_CERTAIN = (
    *("", "# cat a", "rm a", "cat a > b", "cat a >> b", "cat a >| b", "cat a &> b", "cat a >&b"),
    *(
        "cat a > /dev/null/../b",
        "cat $(rm a)",
        "cat `rm a`",
        "cat $A",
        'echo "$(rm a)"',
        "A=b cat a",
    ),
    *("cat <(rm a)", "cat a; rm b", "cat a\nrm b", "ls | tee a", "ls | sh", "./cat a", "bin/cat a"),
    *("cat() { rm a; }; cat a", "alias cat=rm; cat a", "if true; then rm a; fi", "cat <<E\nx\nE"),
    *("sed -n '1w b' a", "sed -i s/a/b/ a", "sed -n 1p -i a", "sed -n", "sed 1p a", "awk 1 a"),
    *("find . -delete", "find . -exec rm {} +", "find . -fprint b", "find *", "find {-delete,b}"),
    *("rg --pre=sh a", "rg --pr sh a", "rg -nz a", "rg --hostname-bin=sh a", "sort -o b a"),
    *("sort --output=b a", "sort -ro b a", "sort *", "bash -c 'rm a'", "bash a.sh", "bash -x -c a"),
    *('bash -c "bash -c \'bash -c \\"cat a\\"\'"', "git log", "env cat a", "cat 'a", "(cat a)"),
    "cat " + "a" * COMMAND_CHARACTERS_MAX,
)


@pytest.mark.parametrize("line", READS)
def test_a_line_of_known_readers_only_reads(line):
    assert only_reads(line)


@pytest.mark.parametrize("line", NOT_CERTAIN)
def test_of_a_line_with_anything_else_it_is_not_certain(line):
    assert not only_reads(line)
