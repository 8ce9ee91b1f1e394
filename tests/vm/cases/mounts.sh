# --mount: read-only, and with writes that stay inside; a folder and a file; never the host's own files.
busybox mkdir -p /tmp/src/sub; echo one > /tmp/src/sub/file; busybox ln -sf sub/file /tmp/src/link; busybox chown 1000:1000 /tmp/src/sub/file; echo alone > /tmp/alone
$VM --mount /tmp/src:/data --mount /tmp/src:/new/copy:overlay --mount /tmp/alone:/etc/alone -- sh -c \
	'cat /data/link; ls -ln /data/sub/file | tr -s " " | cut -d" " -f3,4; ls /data | wc -l; echo x 2>/dev/null > /data/sub/file || echo refused
	echo two > /new/copy/sub/file; cat /new/copy/link; cat /etc/alone; echo x 2>/dev/null > /etc/alone || echo refused' > /tmp/seen
is "$(busybox cat /tmp/seen)" "one
1000 1000
2
refused
two
alone
refused"
is "$(busybox cat /tmp/src/sub/file)" one
is "$(busybox ls /var/lib/ward/images | busybox grep -c mount)" 0
$VM --mount /tmp/src:/data:rw -- true 2>/tmp/err; is $? 125
busybox grep -q 'cannot write to the host' /tmp/err || fail "$(busybox cat /tmp/err)"
