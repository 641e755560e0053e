//go:build unix

package pgserver

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// watchdogScript waits until the owner closes its end of the pipe, by dying or by releasing the watchdog. Then it stops the
// server, if there is one, waits until it is gone, and deletes the directory "$1" when "$2" is "remove". Which process is the
// server must be said by two: by the owner, which deletes server.pid as soon as the server has ended, and by the server itself,
// which deletes postmaster.pid. So a process id that has been given to another process since is not mistaken for it.
const watchdogScript = `trap '' HUP INT TERM QUIT
cat >/dev/null
tries=0
while read -r ours <"$1/server.pid" && read -r pid <"$1/data/postmaster.pid" && [ "$ours" = "$pid" ] && kill -0 "$pid"; do
	[ "$tries" -eq 0 ] && kill -INT "$pid"
	[ "$tries" -eq 100 ] && kill -QUIT "$pid"
	[ "$tries" -ge 150 ] && exit 1
	tries=$((tries + 1))
	sleep 0.1
done 2>/dev/null
[ "$2" = remove ] && rm -rf -- "$1"
exit 0
`

// watchdog is the process that outlives the owner by a moment.
type watchdog struct {
	pipe *os.File
	cmd  *exec.Cmd
}

// watch starts the watchdog of the cluster in dir. remove says that dir goes with the server.
func watch(dir string, remove bool) (*watchdog, error) {
	reader, writer, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	then := "keep"
	if remove {
		then = "remove"
	}
	// With no output of its own: "go test" waits for everybody who holds its pipes.
	cmd := exec.Command("/bin/sh", "-c", watchdogScript, "pgqueue-postgres-watchdog", dir, then)
	cmd.Stdin = reader
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		writer.Close()
		return nil, fmt.Errorf("starting the watchdog: %w", err)
	}
	return &watchdog{pipe: writer, cmd: cmd}, nil
}

// release lets the watchdog finish its work, of which nothing is left after an orderly Stop, and waits for it.
func (w *watchdog) release() {
	if w == nil {
		return
	}
	w.pipe.Close()
	w.cmd.Wait() //nolint:errcheck // its exit code says nothing that Stop has not seen
}
