# ward serve: a sandbox is written down, goes on twice, is forked, paused and resumed; copies know who they are.
busybox ifconfig lo 127.0.0.1 up
cat > /tmp/ward.toml <<END
[sandbox]
tier = "vm"
template = "small"
memory = "192M"
cpus = 1
[alias]
small = "dir:/tpl"
END
ward serve --config /tmp/ward.toml --stop-sandboxes > /tmp/serve.log 2>&1 &
daemon=$!
within 60 busybox grep -q at=daemon.ready /tmp/serve.log || fail "no daemon: $(busybox cat /tmp/serve.log)"
box=$(ward create --timeout 1h) || fail "create: $(busybox tail -3 /tmp/serve.log)"
ward exec $box -- sh -c 'echo before > /tmp/mark; (while :; do sleep 1; done) > /dev/null 2>&1 &' || fail "exec: $?"
pid=$(ward exec -d $box -- sh -c 'echo up; until cat /tmp/go 2>/dev/null; do sleep 1; done; echo $0 went on' it) || fail "exec -d: $?"
snap=$(ward snapshot $box first) || fail "snapshot: $(busybox tail -3 /tmp/serve.log)"
ward exec $box -- sh -c 'echo after > /tmp/mark'
one=$(ward restore first) || fail "restore by name: $(busybox tail -3 /tmp/serve.log)"
two=$(ward restore $snap) || fail "restore by id: $(busybox tail -3 /tmp/serve.log)"
three=$(ward fork $box) || fail "fork: $(busybox tail -3 /tmp/serve.log)"
is "$(ward exec $box -- cat /tmp/mark)" after
is "$(ward exec $one -- cat /tmp/mark)" before
is "$(ward exec $two -- cat /tmp/mark)" before
is "$(ward exec $three -- cat /tmp/mark)" after
# What ran when it was written down is there, by its old number; one goes on, and the others know nothing of it.
ward exec $one -- sh -c 'echo go > /tmp/go' || fail "exec in a copy: $?"
case "$(ward logs --follow $one $pid)" in *"it went on") ;; *) fail "a copy's process: $(ward logs $one $pid)" ;; esac
ward logs $two $pid > /dev/null || fail "a process of another copy: $?"
is "$(ward exec $two -- sh -c 'cat /tmp/go 2>/dev/null; echo none')" none
is "$(for b in $box $one $two $three; do ward exec $b -- cat /proc/sys/kernel/random/uuid; done | busybox sort -u | busybox wc -l)" 4
is "$(for b in $box $one $two $three; do ward exec $b -- hostname; done | busybox sort -u | busybox wc -l)" 4
ward pause $box || fail "pause: $?"
ward resume $box || fail "resume: $?"
is "$(ward exec $box -- cat /tmp/mark)" after
is "$(ward snapshot ls | busybox tail -n +2 | busybox wc -l)" 1
ward snapshot rm first || fail "snapshot rm: $?"
for b in $box $one $two $three; do ward kill $b || fail "kill $b"; done
kill $daemon; wait $daemon
is "$(busybox ls /var/lib/ward/snapshots 2>/dev/null)" ""
