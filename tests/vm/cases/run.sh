# A command, its output on both ways, its exit status, its input.
is "$($VM -- echo hello)" hello
is "$($VM -- sh -c 'echo err >&2; exit 7' 2>&1; echo $?)" "err
7"
is "$(echo piped | $VM -- cat)" piped
is "$($VM -- sh -c 'kill -9 $$'; echo $?)" 137
is "$($VM -- /no/such/thing 2>/dev/null; echo $?)" 127
