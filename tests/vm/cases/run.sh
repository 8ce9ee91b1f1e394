# A command, its output on both ways, its input, its exit status.
is "$(echo piped | $VM -- sh -c 'cat; echo err >&2; exit 7' 2>/tmp/err; echo $?)" "piped
7"
is "$(busybox cat /tmp/err)" err
is "$($VM -- sh -c 'echo hello; kill -9 $$'; echo $?)" "hello
137"
