"""Real programs beside native: scripts whose output must be the same outside and in a sandbox.

A script runs in an empty directory of its own, with that as HOME. It prints what it found, never a number, time or
name that differs from run to run. QUICK ones run in `make test`, LONG ones in `make programs`.
"""
import shutil
import subprocess
import tempfile

import pytest

PATH = "/usr/local/bin:/usr/bin:/bin"  # what the host's template has

HTTP = """
serve() { python3 - "$1" > port <<'E' &
import functools, http.server, sys
h = functools.partial(http.server.SimpleHTTPRequestHandler, directory=sys.argv[1])
h.func.log_message = lambda *a: None
s = http.server.ThreadingHTTPServer(("127.0.0.1", 0), h)
print(s.server_address[1], flush=True)
s.serve_forever()
E
server=$!; until [ -s port ]; do sleep 0.05; done; port=$(cat port); }
"""

GIT = "export GIT_CONFIG_GLOBAL=$PWD/.gitconfig; git config --global user.name a; git config --global user.email a@b; " \
      "git config --global init.defaultBranch main; "

QUICK = {
    "bash": r"""
        set -e; declare -A m=([x]=1 [y]=2); for k in "${!m[@]}"; do echo $k=${m[$k]}; done | sort
        diff <(printf 'a\nb\n') <(printf 'a\nc\n') || true; mapfile -t a < <(seq 5); echo ${#a[@]} ${a[4]}
        trap 'echo bye' EXIT; (exit 3) || echo $?; set -o pipefail; false | true || echo pipe; ulimit -n 64; ulimit -n
        exec 9<>f; echo x >&9; cat f; f() { local v=$1; ((v > 0)) || { echo 0; return; }; f $((v - 1)); }; f 50
        coproc cat; echo hello >&"${COPROC[1]}"; read -r l <&"${COPROC[0]}"; echo $l; exec {COPROC[1]}>&-; wait; echo waited
        (ulimit -v 300000; python3 -c 'bytearray(10 << 20)' && python3 -c 'bytearray(999 << 20)' 2>&1 | tail -1)""",
    "coreutils": r"""
        set -e; mkdir -p a/b/c; for i in $(seq 30); do echo line $i > a/b/f$i; done; cp -a a z; ln -s ../a/b/f1 z/l; ln z/b/f2 z/h
        find z -type f | sort | sha256sum; cat z/b/* 2>/dev/null | sort | uniq | wc -lc; ls -1 z | tr '\n' ' '
        stat -c '%n %s %a %h %F' z/h a/b/f1; touch -d @1000 z/h; stat -c %Y z/h; chmod 640 z/h; stat -c %a z/h; mv z/b y; rm -r z; ls
        split -n 3 y/f10; cat xaa xab xac; seq 100 | shuf --random-source=<(yes) 2>/dev/null | head -3; dd if=/dev/zero of=d bs=4k count=9 status=none
        truncate -s 1M d; stat -c '%s' d; mkfifo p; (echo through > p &); cat p; tail -n 2 y/f3; head -c 4 y/f3; echo; readlink -f y/../y/f3 | wc -l
        timeout 0.2 sleep 5 || echo $?; nice -n 19 nice; env -i A=b env; install -m 755 /bin/true t; ./t && echo ran; tee q < y/f4; comm -12 q y/f4""",
    "busybox": r"""
        set -e; busybox sh -c 'for i in 1 2 3; do echo $i; done | busybox tac | busybox tr "\n" " "'; echo
        busybox seq 10 | busybox awk '{s+=$1} END {print s}'; echo data | busybox gzip -c | busybox gunzip -c; busybox mkdir -p d/e
        echo x > d/e/f; busybox tar cf t.tar d; busybox rm -r d; busybox tar xf t.tar; busybox find d | busybox sort
        busybox md5sum d/e/f; busybox expr 6 '*' 7""",
    "python": r"""
        python3 - <<'E'
import asyncio, concurrent.futures, mmap, multiprocessing as mp, os, shutil, signal, sqlite3, subprocess, tempfile, threading, time
lock, total = threading.Lock(), 0
def add(n):
    global total
    for _ in range(200):
        with lock: total += n
ts = [threading.Thread(target=add, args=(i,)) for i in range(20)]
[t.start() for t in ts]; [t.join() for t in ts]; print(total)
print(subprocess.check_output("echo $((6*7)); exit 0", shell=True), subprocess.run(["false"]).returncode)
with concurrent.futures.ThreadPoolExecutor(8) as ex: print(sum(ex.map(lambda x: x * x, range(100))))
async def one(i):
    p = await asyncio.create_subprocess_exec("echo", str(i), stdout=-1)
    return (await p.communicate())[0]
async def echo(r, w):
    w.write(await r.readline()); await w.drain(); w.close()
async def ask(port, i):
    r, w = await asyncio.open_connection("127.0.0.1", port)
    w.write(b"%d\n" % i); line = await r.readline(); w.close()
    return int(line)
async def main():
    s = await asyncio.start_server(echo, "127.0.0.1", 0)
    port = s.sockets[0].getsockname()[1]
    print(await asyncio.gather(*(one(i) for i in range(5))), sorted(await asyncio.gather(*(ask(port, i) for i in range(20)))))
    s.close()
asyncio.run(main())
def work(q, n): q.put((n, os.getpid() != os.getppid()))
q = mp.Queue(); ps = [mp.Process(target=work, args=(q, i)) for i in range(3)]
[p.start() for p in ps]; print(sorted(q.get() for _ in ps)); [p.join() for p in ps]; print([p.exitcode for p in ps])
with mp.Pool(2) as p: print(p.map(abs, range(-5, 0)))
v = mp.Value("i", 0)
p = mp.Process(target=lambda: setattr(v, "value", 9)); p.start(); p.join(); print(v.value)
with tempfile.TemporaryFile() as f:
    f.write(b"x" * 8192); f.flush()
    m = mmap.mmap(f.fileno(), 0); m[4096:4100] = b"abcd"; m.flush(); f.seek(4096); print(f.read(4)); m.close()
db = sqlite3.connect("db"); db.execute("pragma journal_mode=wal"); db.execute("create table t(a)")
db.executemany("insert into t values(?)", [(i,) for i in range(1000)]); db.commit(); print(db.execute("select count(*), sum(a) from t").fetchone())
got = []
signal.signal(signal.SIGALRM, lambda *a: got.append(1)); signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
while len(got) < 3: time.sleep(0.1)
signal.setitimer(signal.ITIMER_REAL, 0); print("timer", flush=True)
r, w = os.pipe(); pid = os.fork()
if pid == 0: os.write(w, b"child"); os._exit(5)
print(os.read(r, 9), os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])); print(shutil.disk_usage("/").total > 0)
E""",
    "pytest": r"""
        cat > test_it.py <<'E'
import subprocess, threading, pytest
@pytest.mark.parametrize("n", range(20))
def test_square(n, tmp_path):
    (tmp_path / "f").write_text(str(n * n)); assert int((tmp_path / "f").read_text()) == n ** 2
def test_child(): assert subprocess.run(["true"]).returncode == 0
def test_thread():
    l = []; t = threading.Thread(target=lambda: l.append(1)); t.start(); t.join(); assert l
def test_bad(): assert [1, 2] == [1, 3]
E
        /usr/bin/python3 -m pytest -q -p no:cacheprovider --basetemp=$PWD/t test_it.py 2>&1 | grep -v ' in [0-9]'; echo ${PIPESTATUS[0]}""",
    "git": HTTP + GIT + r"""
        git init -q r && cd r && for i in 1 2 3; do echo $i > f$i; git add .; GIT_COMMITTER_DATE=2001-01-01T00:00:00Z git commit -q --date=2001-01-01T00:00:00Z -m "c $i"; done
        git log --oneline | cat; git tag v1; git worktree add -q ../w HEAD~1; ls ../w; git -C ../w log --oneline | wc -l; git branch -a | cat
        echo changed >> f1; git diff --stat | cat; git stash -q; git stash list | cut -c1-20; git stash pop -q; git status --short; git gc -q
        cd ..; git clone -q r c; git -C c log --format=%s | head -1; git clone -q --bare r b.git; git -C b.git update-server-info
        serve $PWD; git clone -q http://127.0.0.1:$port/b.git h; kill $server; git -C h rev-parse HEAD; git -C h fsck 2>&1 | grep -v '^Checking' | head -3""",
    "gcc and make": r"""
        for i in $(seq 6); do echo "int f$i(int x) { return x + $i; }" > f$i.c; done
        { for i in $(seq 6); do echo "int f$i(int);"; done; echo '#include <stdio.h>'; echo 'int main(void) { int x = 0;'
          for i in $(seq 6); do echo "x = f$i(x);"; done; echo 'printf("%d\n", x); return 0; }'; } > main.c
        printf 'o := $(patsubst %%.c,%%.o,$(wildcard *.c))\nprog: $(o)\n\tgcc -o $@ $(sort $^)\n%%.o: %%.c\n\tgcc -O1 -c $<\nclean:\n\trm -f *.o prog\n' > Makefile
        make -j4 2>&1 | sort; ./prog; make 2>&1; make -s clean; ls; echo 'int main(void) { return x; }' > bad.c; gcc bad.c 2>&1; echo $?""",
    "tar and zip": r"""
        mkdir d; for i in $(seq 40); do seq $i > d/$i; done; ln -s 1 d/l; tar cf t.tar --sort=name --mtime=@0 --owner=0 --group=0 d; sha256sum t.tar
        tar czf t.tgz d; tar tzf t.tgz | wc -l; tar cJf t.txz d && mkdir x && tar xJf t.txz -C x && diff -r d x/d && echo same
        zip -qr d.zip d; unzip -qq d.zip -d y; diff -r d y/d && echo same; unzip -l d.zip | tail -1 | awk '{print $2}'; gzip -t t.tgz; echo $?""",
    "sqlite3": r"""
        sqlite3 f.db 'create table t(a integer primary key, b text); begin; insert into t select value, hex(value) from generate_series(1, 5000); commit;
        select count(*), sum(a) from t; pragma integrity_check; create index i on t(b); select a from t where b = hex(77); vacuum;'
        for i in 1 2 3 4; do sqlite3 -cmd '.timeout 20000' f.db "insert into t(b) values('w$i')" & done; wait; sqlite3 f.db "select count(*) from t" """,
    "curl": HTTP + r"""
        mkdir w; seq 20000 > w/big; echo small > w/s; serve $PWD/w; curl -s http://127.0.0.1:$port/s; curl -s http://127.0.0.1:$port/big | sha256sum
        curl -s -o /dev/null -w '%{http_code} %{size_download}\n' http://localhost:$port/none; curl -s -r 0-9 http://127.0.0.1:$port/big | head -3
        for i in $(seq 8); do curl -s http://127.0.0.1:$port/s & done | sort | uniq -c; kill $server; wait $server 2>/dev/null
        curl -s --max-time 5 http://127.0.0.1:$port/s; echo $?; curl -s http://127.0.0.1:1/; echo $?""",
    "tcp": r"""
        python3 - <<'E'
import socket, threading
s = socket.socket(); s.bind(("127.0.0.1", 0)); s.listen(200)
def serve(c):
    while (d := c.recv(4096)): c.sendall(d[::-1])
    c.close()
def accept():
    for _ in range(100): threading.Thread(target=serve, args=(s.accept()[0],)).start()
threading.Thread(target=accept).start(); good = []
def client(i):
    c = socket.create_connection(s.getsockname())
    for n in range(10):
        m = b"%d-%d" % (i, n); c.sendall(m); good.append(c.recv(4096) == m[::-1])
    c.close()
ts = [threading.Thread(target=client, args=(i,)) for i in range(100)]
[t.start() for t in ts]; [t.join() for t in ts]; print(len(good), all(good))
E""",
    "terminal": r"""
        script -qec 'test -t 0 && echo terminal; stty size; stty -a | grep -o "isig icanon"; tty | cut -c1-8' /dev/null </dev/null | tr -d '\r'
        export TERM=xterm; tmux -L t -f /dev/null new-session -d -x 80 -y 24 'echo in tmux; exec sleep 60'
        for i in $(seq 200); do tmux -L t capture-pane -p | grep -q 'in tmux' && break; sleep 0.05; done
        tmux -L t capture-pane -p | head -1; tmux -L t list-windows -F '#{window_width}x#{window_height}'; tmux -L t kill-server; echo $?""",
    "static musl": r"""
        cat > a.c <<'E'
#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
static int n; static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static void *f(void *a) { for (int i = 0; i < 1000; i++) { pthread_mutex_lock(&m); n++; pthread_mutex_unlock(&m); } return a; }
int main(void) { pthread_t t[8]; int s; for (int i = 0; i < 8; i++) pthread_create(&t[i], 0, f, 0);
 for (int i = 0; i < 8; i++) pthread_join(t[i], 0); if (!fork()) _exit(3); wait(&s); printf("%d %d\n", n, s >> 8); return 0; }
E
        musl-gcc -static -O1 a.c -o a && ./a""",
    "node": r"""
        cat > a.js <<'E'
const http = require('http'), fs = require('fs'), cp = require('child_process'), { Worker, isMainThread, parentPort } = require('worker_threads');
if (!isMainThread) { parentPort.postMessage(6 * 7); return; }
(async () => {
  const s = http.createServer((q, r) => r.end('path ' + q.url)).listen(0, '127.0.0.1'); await new Promise(f => s.on('listening', f));
  console.log(await new Promise(f => http.get({ port: s.address().port, path: '/x', host: '127.0.0.1' }, r => r.on('data', d => f(String(d)))))); s.close();
  fs.writeFileSync('f', 'abc'); console.log(fs.readFileSync('f', 'utf8'), (await fs.promises.readdir('.')).sort());
  console.log(String(cp.execSync('echo child')).trim(), cp.spawnSync('false').status);
  const w = new Worker(__filename); console.log(await new Promise(f => w.on('message', f)));
  await new Promise(f => setTimeout(f, 10)); console.log(require('zlib').gunzipSync(require('zlib').gzipSync('zip')).toString());
})();
E
        node a.js""",
}

LONG = {
    "venv and pip": r"""
        mkdir -p src/tiny && echo 'def f(): return 42' > src/tiny/__init__.py
        printf 'from setuptools import setup\nsetup(name="tiny", version="1.0", packages=["tiny"])\n' > src/setup.py
        (cd src && /usr/bin/python3 setup.py -q bdist_wheel -d ../wheels >/dev/null 2>&1); ls wheels
        /usr/bin/python3 -m venv v && v/bin/pip -q install --disable-pip-version-check --no-index --find-links wheels tiny
        v/bin/python -c 'import tiny; print(tiny.f())'; v/bin/pip list --disable-pip-version-check 2>/dev/null | grep tiny""",
    "npm": r"""
        mkdir lib app && cd lib && echo '{"name":"tiny","version":"1.2.3","main":"i.js"}' > package.json && echo 'module.exports = 7' > i.js && npm pack --silent
        cd ../app && echo '{"name":"app","version":"1.0.0","scripts":{"go":"node -p \"require(\\\"tiny\\\") * 6\""}}' > package.json
        npm install --silent --offline --no-audit --no-fund ../lib/tiny-1.2.3.tgz; ls node_modules; npm run --silent go; npm ls --silent | tail -n +2""",
    "cmake and ninja": r"""
        printf 'cmake_minimum_required(VERSION 3.5)\nproject(p C)\nadd_library(l STATIC l.c)\nadd_executable(e e.c)\n' > CMakeLists.txt
        printf 'target_link_libraries(e l)\nenable_testing()\nadd_test(t e)\n' >> CMakeLists.txt
        echo 'int l(void) { return 5; }' > l.c; printf '#include <stdio.h>\nint l(void); int main(void) { printf("%%d\\n", l()); return 0; }\n' > e.c
        cmake -G Ninja -S . -B b >/dev/null && ninja -C b | tail -1 | cut -c1-5; b/e; (cd b && ctest 2>&1 | grep 'tests passed'); ninja -C b | tail -1""",
    "go": r"""
        export GOCACHE=$PWD/c GOPATH=$PWD/p GO111MODULE=off GOFLAGS=-p=2
        cat > a.go <<'E'
package main
import ("fmt"; "io"; "net"; "net/http"; "os"; "os/exec"; "os/signal"; "runtime"; "runtime/debug"; "strings"; "sync"; "sync/atomic"; "syscall"; "time")
func main() {
	runtime.GOMAXPROCS(4); var wg sync.WaitGroup; var m sync.Mutex; n := 0; var sink int64
	for i := 0; i < 6; i++ { wg.Add(1); go func() { x := 0; for j := 0; j < 100000000; j++ { x ^= j }; atomic.AddInt64(&sink, int64(x)); wg.Done() }() } // must be preempted
	time.Sleep(time.Millisecond); fmt.Println("between"); wg.Wait()
	for i := 0; i < 1000; i++ { wg.Add(1); go func() { m.Lock(); n++; m.Unlock(); wg.Done() }() }
	wg.Wait(); fmt.Println(n)
	l, err := net.Listen("tcp", "127.0.0.1:0"); if err != nil { panic(err) }
	go http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { b, _ := io.ReadAll(r.Body); fmt.Fprint(w, r.URL.Path, len(b)) }))
	var good int64
	for i := 0; i < 20; i++ { wg.Add(1); go func(i int) { defer wg.Done(); for k := 0; k < 10; k++ {
		r, err := http.Post(fmt.Sprintf("http://%s/%d", l.Addr(), i), "text/plain", strings.NewReader(strings.Repeat("x", 9999 * k))); if err != nil { fmt.Println(err); return }
		b, _ := io.ReadAll(r.Body); r.Body.Close(); if string(b) == fmt.Sprintf("/%d%d", i, 9999 * k) { atomic.AddInt64(&good, 1) } } }(i) }
	wg.Wait(); fmt.Println("http", good)
	for i := 0; i < 8; i++ { wg.Add(1); go func(i int) { e := exec.Command("sh", "-c", fmt.Sprintf("exit %d", i)).Run(); if i > 0 && e.(*exec.ExitError).ExitCode() != i { fmt.Println(e) }; wg.Done() }(i) }
	wg.Wait(); o, _ := exec.Command("echo", "child").Output(); fmt.Print(string(o)); os.WriteFile("f", o, 0644); st, _ := os.Stat("f"); fmt.Println(st.Size())
	k := exec.Command("sleep", "60"); k.Start(); k.Process.Kill(); fmt.Println(k.Wait())
	c := make(chan os.Signal, 1); signal.Notify(c, syscall.SIGUSR1); syscall.Kill(os.Getpid(), syscall.SIGUSR1); fmt.Println(<-c)
	for i := 0; i < 500; i++ { wg.Add(1); time.AfterFunc(time.Duration(i % 20) * time.Millisecond, wg.Done) }
	wg.Wait(); t := time.NewTicker(time.Millisecond); for i := 0; i < 10; i++ { <-t.C }; t.Stop(); fmt.Println("timers")
	func() { defer func() { fmt.Println(recover()) }(); var p *[4]int; fmt.Println(p[2]) }()
	for i := 0; i < 20; i++ { b := make([]byte, 1 << 22); b[i << 12] = 1 }; runtime.GC(); debug.FreeOSMemory()
	a, b := net.Pipe(); b.SetReadDeadline(time.Now().Add(5 * time.Millisecond)); _, err = b.Read(make([]byte, 1)); fmt.Println(err, a != nil)
}
E
        go build -o a a.go && ./a""",
    "java": r"""
        cat > T.java <<'E'
import java.util.*; import java.util.concurrent.*; import java.net.*; import java.io.*; import java.nio.*; import java.nio.channels.*; import java.nio.file.*;
public class T {
  static int deep(int n) { return deep(n + 1) + 1; }
  public static void main(String[] a) throws Exception {
    ExecutorService ex = Executors.newFixedThreadPool(8); List<Future<Integer>> fs = new ArrayList<>(); long t = 0;
    for (int i = 0; i < 100; i++) { final int n = i; fs.add(ex.submit(() -> { int s = 0; for (int k = 0; k < 50000; k++) s += k ^ n; return s; })); }
    for (Future<Integer> f : fs) t += f.get(); System.out.println(t);
    ServerSocket ss = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
    ex.submit(() -> { for (;;) { Socket s = ss.accept(); ex.submit(() -> { s.getInputStream().transferTo(s.getOutputStream()); s.close(); return 0; }); } });
    for (int i = 0; i < 10; i++) { Socket c = new Socket(InetAddress.getLoopbackAddress(), ss.getLocalPort()); c.getOutputStream().write(("m" + i).getBytes());
      c.shutdownOutput(); System.out.println(new String(c.getInputStream().readAllBytes())); c.close(); }
    Process p = new ProcessBuilder("sh", "-c", "cat; exit 3").start(); p.getOutputStream().write("hi".getBytes()); p.getOutputStream().close();
    System.out.println(new String(p.getInputStream().readAllBytes()) + p.waitFor());
    try { Object o = null; o.hashCode(); } catch (NullPointerException e) { System.out.println("null"); }
    try { deep(0); } catch (StackOverflowError e) { System.out.println("deep"); }
    for (int i = 0; i < 2000; i++) { byte[] b = new byte[100000]; } System.gc(); Path f = Paths.get("f"); Files.writeString(f, "abc");
    try (FileChannel ch = FileChannel.open(f, StandardOpenOption.READ, StandardOpenOption.WRITE)) { MappedByteBuffer m = ch.map(FileChannel.MapMode.READ_WRITE, 0, 8192); m.put(4096, (byte) 65); m.force(); }
    System.out.println(Files.size(f)); WatchService w = FileSystems.getDefault().newWatchService(); Files.createDirectories(Paths.get("d"));
    Paths.get("d").register(w, StandardWatchEventKinds.ENTRY_CREATE); Files.writeString(Paths.get("d/x"), "y"); System.out.println(w.take().pollEvents().get(0).context());
    CountDownLatch l = new CountDownLatch(5); ScheduledExecutorService se = Executors.newScheduledThreadPool(2); se.scheduleAtFixedRate(l::countDown, 1, 1, TimeUnit.MILLISECONDS); l.await();
    Runtime.getRuntime().addShutdownHook(new Thread(() -> System.out.println("hook"))); System.exit(4);
  }
}
E
        javac T.java && java T; echo $?""",
    "perl, ruby and php": r"""
        cat > t.pl <<'E'
use strict; use IO::Socket::INET; use Time::HiRes qw(ualarm usleep); $| = 1; my ($s, $n, @p) = (0, 0);
for my $i (1 .. 20) { my $pid = fork; exit $i if !$pid; push @p, $pid } for (@p) { waitpid $_, 0; $s += $? >> 8 } print "$s\n";
$SIG{ALRM} = sub { $n++ }; ualarm(1000, 1000); usleep 100000 while $n < 3; ualarm 0; print "alarm\n"; my $l = IO::Socket::INET->new(Listen => 5, LocalAddr => '127.0.0.1') or die;
if (!fork) { my $k = $l->accept; my $x = <$k>; print $k uc $x; exit } my $c = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $l->sockport); print $c "hello\n"; print scalar <$c>; wait;
print `echo back; exit 3`, $? >> 8, "\n"; open my $f, '|-', 'sort' or die; print $f "b\na\n"; close $f; eval { local $SIG{ALRM} = sub { die "timeout\n" }; alarm 1; sleep 60 }; print $@;
E
        cat > t.rb <<'E'
require 'socket'; require 'timeout'; require 'open3'; m = Mutex.new; n = 0; 50.times.map { |i| Thread.new { 100.times { m.synchronize { n += i } } } }.each(&:join); puts n
s = TCPServer.new('127.0.0.1', 0); Thread.new { loop { c = s.accept; Thread.new { c.puts c.gets.reverse; c.close } } }
puts 20.times.map { |i| Thread.new { c = TCPSocket.new('127.0.0.1', s.addr[1]); c.puts "a#{i}"; c.read.strip } }.map(&:value).sort.join(',')
puts Open3.capture2('cat', stdin_data: 'in')[0]; `exit 3`; puts $?.exitstatus; begin; Timeout.timeout(0.05) { sleep 60 }; rescue Timeout::Error; puts 'timeout'; end
q = Queue.new; trap('USR1') { q << 'usr1' }; Process.kill('USR1', $$); puts q.pop; r, w = IO.pipe; fork { w.puts 'child' }; w.close; puts r.read; Process.wait
E
        cat > t.php <<'E'
<?php $s = stream_socket_server('tcp://127.0.0.1:0'); $c = stream_socket_client('tcp://' . stream_socket_get_name($s, false)); $k = stream_socket_accept($s); fwrite($c, "hey\n"); echo fgets($k);
$p = proc_open('cat; exit 4', [['pipe', 'r'], ['pipe', 'w']], $pp); fwrite($pp[0], 'x'); fclose($pp[0]); echo stream_get_contents($pp[1]), proc_close($p), "\n"; echo shell_exec('echo sh');
$pid = pcntl_fork(); if (!$pid) exit(5); pcntl_waitpid($pid, $st); echo pcntl_wexitstatus($st), "\n"; file_put_contents('pf', str_repeat('a', 100000)); echo md5_file('pf'), "\n"; $f = fopen('pf', 'r+'); var_dump(flock($f, LOCK_EX));
E
        perl t.pl; ruby t.rb; php t.php""",
    "chromium": r"""
        mkdir w; echo '<title>t</title><p>hello</p>' > w/i.html; echo '{"a":21}' > w/d.json; cat > b.py <<'E'
import functools, http.server, json, os, subprocess, threading
h = functools.partial(http.server.SimpleHTTPRequestHandler, directory="w"); h.func.log_message = lambda *a: None
s = http.server.ThreadingHTTPServer(("127.0.0.1", 0), h); threading.Thread(target=s.serve_forever, daemon=True).start()
(r1, w1), (r2, w2), n, left = os.pipe(), os.pipe(), 0, b""
def fds(a=os.dup(r1), b=os.dup(w2)): os.dup2(a, 3); os.dup2(b, 4)
p = subprocess.Popen(["/usr/lib/chromium/chromium", "--headless", "--no-sandbox", "--remote-debugging-pipe", "--user-data-dir=u", "about:blank"],
                     preexec_fn=fds, close_fds=False, stderr=subprocess.DEVNULL)
def call(method, session=None, **params):
    global n, left
    n += 1; os.write(w1, json.dumps({"id": n, "method": method, "params": params, **({"sessionId": session} if session else {})}).encode() + b"\0")
    while True:
        while b"\0" not in left: left += os.read(r2, 65536)
        one, left = left.split(b"\0", 1); m = json.loads(one)
        if m.get("id") == n: return m.get("result", {})
k = call("Target.attachToTarget", targetId=call("Target.createTarget", url=f"http://127.0.0.1:{s.server_address[1]}/i.html")["targetId"], flatten=True)["sessionId"]
def js(text): return call("Runtime.evaluate", k, expression=text, awaitPromise=True, returnByValue=True).get("result", {}).get("value")
while js("document.readyState == 'complete' && document.title") != "t": pass
print(js("fetch('/d.json').then(r => r.json()).then(j => new Promise(f => { const w = new Worker(URL.createObjectURL(new Blob(['onmessage = e => postMessage(e.data * 2)']))); w.onmessage = e => f(e.data); w.postMessage(j.a) }))"))
print(js("new Promise(f => { const q = indexedDB.open('d', 1); q.onupgradeneeded = () => q.result.createObjectStore('s'); q.onsuccess = () => f('stored'); q.onerror = () => f('' + q.error) })"))
print(js("WebAssembly.instantiate(new Uint8Array([0,97,115,109,1,0,0,0])).then(() => 'wasm')"), js("localStorage.k = 'v', localStorage.k"))
print(js("(() => { const c = document.createElement('canvas'); c.width = c.height = 9; const x = c.getContext('2d'); x.fillStyle = '#f00'; x.fillRect(0, 0, 9, 9); return [...x.getImageData(4, 4, 1, 1).data].join() })()"))
print(call("Page.captureScreenshot", k)["data"][:11], call("Page.printToPDF", k)["data"][:6]); os.write(w1, b'{"id":99,"method":"Browser.close"}\0'); print(p.wait(60))
E
        timeout 200 python3 b.py""",
    "postgres": r"""
        export B=$(dirname $(ls /usr/lib/postgresql/*/bin/initdb | tail -1)); chmod 755 $HOME; mkdir d; chown 65534 d; cat > run <<'E'
cd $HOME/d; export PATH=$B:$PATH PGHOST=$PWD LC_ALL=C; initdb -D c -A trust -U u > log 2>&1 || cat log
pg_ctl -D c -o "-k $PWD -h ''" -l log -w start | tail -1; export PGUSER=u; createdb b; pgbench -iqs 1 b 2>/dev/null; pgbench -c 4 -j 2 -t 50 b 2>&1 | grep -E 'processed|failed'
psql -Atc 'select count(*), sum(aid) from pgbench_accounts' b; psql -Atqc 'set parallel_setup_cost=0; set parallel_tuple_cost=0; set min_parallel_table_scan_size=0; select sum(aid) from pgbench_accounts' b
pg_dump b | grep -c '^COPY'; vacuumdb -qf b; kill -9 $(head -1 c/postmaster.pid); while pgrep -u 65534 -x postgres >/dev/null; do sleep 0.1; done
pg_ctl -D c -o "-k $PWD -h ''" -l log -w start 2>/dev/null | tail -1; psql -Atc 'select count(*) from pgbench_history' b; pg_ctl -D c -m fast stop | tail -1
E
        setpriv --reuid=65534 --regid=65534 --clear-groups bash run""",
    "redis": r"""
        redis-server --port 0 --unixsocket $HOME/r --save 1 1 --appendonly yes --dir $HOME --io-threads 2 > log & until redis-cli -s r ping 2>/dev/null | grep PONG; do sleep 0.1; done
        redis-benchmark -s r -q -n 2000 -c 10 -t set,get,incr 2>/dev/null | tr '\r' '\n' | grep -c 'requests per second'; redis-cli -s r get counter:__rand_int__; redis-cli -s r bgrewriteaof >/dev/null
        while redis-cli -s r info persistence | grep -q 'in_progress:1\|scheduled:1'; do sleep 0.1; done; redis-cli -s r info persistence | grep -c 'status:ok'; redis-cli -s r shutdown nosave; wait""",
    "a thousand threads": r"""
        python3 -c '
import threading
go, n, lock = threading.Event(), [0], threading.Lock()
def f():
    go.wait()
    with lock: n[0] += 1
threading.stack_size(65536); ts = [threading.Thread(target=f) for _ in range(1000)]
[t.start() for t in ts]; print(threading.active_count()); go.set(); [t.join() for t in ts]; print(n[0])'""",
    "ten thousand descriptors": r"""
        python3 -c '
import os, resource, select
resource.setrlimit(resource.RLIMIT_NOFILE, (20000, 20000)); p = select.poll(); fds = []
for i in range(5000):
    r, w = os.pipe(); fds.append((r, w)); p.register(r, select.POLLIN)
for r, w in fds[::100]: os.write(w, b"x")
print(len(p.poll(0)), len(os.listdir("/proc/self/fd")) > 10000)
e = select.epoll(); [e.register(r, select.EPOLLIN) for r, w in fds]; print(len(e.poll(0, 10000)))'""",
    "fork bomb": r"""
        python3 -c '
import os, signal, sys
kids = []
try:
    while len(kids) < 100000:
        pid = os.fork()
        if pid == 0: signal.pause()
        kids.append(pid)
except OSError as e: print("refused", e.errno)
print(len(kids) > 50); [os.kill(k, 9) for k in kids]; [os.waitpid(k, 0) for k in kids]; sys.stdout.flush(); pid = os.fork()
if pid == 0: os._exit(4)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))'""",
}
# What is not run outside, where there is no limit to run into that would not hurt others, and what it prints.
NOT_NATIVE = {"fork bomb": "refused 11\nTrue\n4\n"}
# What may have come from elsewhere than Debian, to a place that a sandbox does not see, and what nobody has to have.
NEEDS = {"node": ["node"], "npm": ["node", "npm"], "chromium": ["chromium"], "postgres": ["psql"], "redis": ["redis-server", "redis-benchmark"]}
OPTIONS = {"a thousand threads": ("--pids", "1200"), "java": ("--memory", "2G"), "chromium": ("--memory", "2G", "--pids", "500")}

# stress-ng's stressors, a second each.
STRESS = {
    "scheduler": "clone fork vfork pthread switch yield mutex futex sem sem-sysv",
    "files": "hdd dir dentry rename link symlink flock lockf fallocate seek fstat getdent open utime chmod inotify",
    "memory": "vm mmap brk mremap madvise shm shm-sysv malloc memfd",
    "pipes and events": "pipe fifo eventfd epoll poll timerfd timer sigq sigfd signal kill splice tee msg mq itimer",
    "network": "sock udp sockpair sockfd sockmany sendfile",
}


def native(script):
    with tempfile.TemporaryDirectory(prefix="ward-programs-", dir="/var/tmp") as place:
        return subprocess.run(["/bin/bash", "-c", script], cwd=place, capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL,
                              env={"HOME": place, "PATH": PATH, "LANG": "C.UTF-8"})


def inside(ward, script, *options, timeout=300):
    full = f"export HOME=$(mktemp -d /var/tmp/p-XXXXXX) PATH={PATH} LANG=C.UTF-8; cd $HOME\n" + script
    return ward("run", "--tier", "kernel", "--net", "loopback", *options, "--", "/bin/bash", "-c", full, timeout=timeout)


def same(ward, name, script):
    """Fails with both outputs when they differ."""
    for program in NEEDS.get(name, ()):
        if not shutil.which(program, path=PATH):
            pytest.skip(f"{program} is not in {PATH}, which is all that a sandbox of the host template sees; Debian's package of it would be")
    want = native(script)
    assert want.stdout and want.stderr == "", f"{name} outside: {want.stdout}{want.stderr}"
    got = inside(ward, script, *OPTIONS.get(name, ()))
    assert (got.stdout, got.stderr, got.returncode) == (want.stdout, want.stderr, want.returncode), name
