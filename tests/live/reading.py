"""Forty ways to read a file by a line of shell; and what names one and reads none."""

WAYS = (
    *("cat {}", "cat -n {}", "head -20 {}", "head -n 5 {}", "tail -n +1 {}", "tail -c 99 {}"),
    *("sed -n '1,80p' {}", "sed -n 1p {}", "sed 's/a/b/' {}", "sed -n -e 1p {}", "nl -ba {}"),
    *("grep -n file {}", "grep -e file {}", "grep -c e {}", "egrep 'f|e' {}", "grep -A 2 f {}"),
    *("awk 'NR<9' {}", "awk '{{print $1}}' {}", "awk -F: '{{print $1}}' {}", "cut -c1-9 {}"),
    *("wc -l {}", "wc -l < {}", "cat < {}", "sort {}", "uniq {}", "tac {}", "rev {}", "od -c {}"),
    *("bash -c 'cat {}'", 'sh -c "head -3 {}"', "env A=b cat {}", "cat {} | head -2", "(cat {})"),
    *("cd . && cat {}", "true; cat {}", "cat {} 2>/dev/null", "timeout 9 cat {}", "fold -w 9 {}"),
    *("cat './{}'", 'x=$(cat {}) && echo "$x"', "paste {}", "diff {} {}"),
)
NOT_READ = ("ls -l {}", "touch -r {} {}.ref", "test -f {} && echo yes", "echo {}", "stat {}")
"""Lines that name a file and show nothing of what is in it."""
NOT_TOLD = ("find . -name {} -exec cat '{{}}' +", "ls {} | xargs cat", "f={}; cat $f")
"""Lines that read a file of which their words do not tell."""
