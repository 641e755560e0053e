//go:build unix

package pgserver

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
)

func watchdogPID(s *Server) int { return s.watchdog.cmd.Process.Pid }

func TestServerEndsWithItsOwner(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"exit", "killed"} {
		parent := openDir(t)
		owner := startOwner(t, kind, parent)
		if kind == "killed" {
			owner.kill(t)
		}
		eventually(t, kind+": the port is closed", func() bool { return !listening(owner.port) })
		eventually(t, kind+": the directory is gone", func() bool { return missing(owner.dir) })
	}
}

func TestServerOfAKilledOwnerIsRemovedByTheNextStart(t *testing.T) {
	t.Parallel()
	parent := openDir(t)
	owner := startOwner(t, "killed", parent)
	living := startOwner(t, "killed", parent)
	// Without its watchdog, Linux still ends the server; elsewhere it is ended here. Either way the directory stays.
	if err := syscall.Kill(owner.wd, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	owner.kill(t)
	if !canEnterClosed { // not Linux
		syscall.Kill(owner.pid, syscall.SIGINT)
	}
	eventually(t, "the server has ended", func() bool { return missing(filepath.Join(owner.dir, dataFolder, "postmaster.pid")) })
	if missing(owner.dir) {
		t.Fatal("somebody removed the directory; the test proves nothing")
	}
	startServer(t, Options{ParentDir: parent})
	if !missing(owner.dir) {
		t.Error("the dead owner's directory is still there")
	}
	if missing(living.dir) || !listening(living.port) {
		t.Error("the living owner's server was disturbed")
	}
}

// The watchdog alone, with a process that stands for the server.
func TestWatchdogStopsOnlyWhatBothFilesName(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name           string
		ours, theirs   bool // which file names the process
		remove, killed bool
	}{
		{"both", true, true, true, true},
		{"both, fixed directory", true, true, false, true},
		{"the server ended and its id was given away", false, true, true, false},
		{"another server uses the directory", true, false, true, false},
	} {
		dir := t.TempDir()
		if err := os.Mkdir(filepath.Join(dir, dataFolder), 0o700); err != nil {
			t.Fatal(err)
		}
		stand := exec.Command("sleep", "600")
		if err := stand.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- stand.Wait() }()
		id := strconv.Itoa(stand.Process.Pid) + "\n"
		write := func(named bool, path string) {
			content := "999999999\n"
			if named {
				content = id
			}
			if err := os.WriteFile(filepath.Join(dir, path), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		write(test.ours, serverPID)
		write(test.theirs, filepath.Join(dataFolder, "postmaster.pid"))

		dog, err := watch(dir, test.remove)
		if err != nil {
			t.Fatal(err)
		}
		dog.release()
		// release has waited for the watchdog; what it left alive is ended here.
		stand.Process.Signal(syscall.SIGTERM)
		<-ended
		signal := stand.ProcessState.Sys().(syscall.WaitStatus).Signal()
		if killed := signal == syscall.SIGINT; killed != test.killed {
			t.Errorf("%s: ended by %v", test.name, signal)
		}
		if missing(dir) != test.remove {
			t.Errorf("%s: directory removed: %v", test.name, missing(dir))
		}
	}
}

func TestRemoveStaleSparesDirectoriesWithoutAnOwnerFile(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	young := filepath.Join(parent, throwawayPrefix+"young")
	dead := filepath.Join(parent, throwawayPrefix+"dead")
	for _, dir := range []string{young, dead} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dead, ownerFile), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	removeStale(parent)
	if missing(young) || !missing(dead) {
		t.Errorf("young removed: %v, dead removed: %v", missing(young), missing(dead))
	}
}
