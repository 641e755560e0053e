package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
)

// where is what a reader has to know about a run.
type where struct {
	server   string // version and settings
	machine  string
	versions []string // of the peers
	command  string
	rounds   int
}

func surroundings(ctx context.Context, server *server, settings settings) (where, error) {
	text, err := server.settings(ctx)
	if err != nil {
		return where{}, err
	}
	target := "bench"
	if settings.docs != "" {
		target = "bench-docs"
	}
	return where{server: text, machine: machine(), versions: versions(ctx), command: command(os.Getenv, target), rounds: settings.rounds}, nil
}

// heading says it in one line.
func (w where) heading() string {
	return fmt.Sprintf("%s; %s; %s; pool of %d; median of %d rounds", w.server, w.machine, strings.Join(w.versions, ", "), poolSize, w.rounds)
}

// machine is the processor, where the system tells it, and what Go knows.
func machine() string {
	text := fmt.Sprintf("%s/%s, %d CPUs", runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
	if model := field("/proc/cpuinfo", "model name"); model != "" {
		text += ", " + model
	}
	if memory := field("/proc/meminfo", "MemTotal"); memory != "" {
		text += ", memory " + memory
	}
	return text
}

// field is the first value of a name in a file of names and values; empty where there is none.
func field(path, name string) string {
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if key, value, found := strings.Cut(lines.Text(), ":"); found && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// versions are those of Go and of the peers, as they are built in or installed.
func versions(ctx context.Context) []string {
	all := []string{runtime.Version()}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range info.Deps {
			switch module.Path {
			case "github.com/riverqueue/river", "github.com/vgarvardt/gue/v5", "github.com/jackc/pgx/v5":
				all = append(all, strings.TrimPrefix(module.Path, "github.com/")+" "+module.Version)
			}
		}
	}
	node, err := findNode(ctx)
	if err != nil {
		return all
	}
	if version, err := exec.CommandContext(ctx, node, "--version").Output(); err == nil {
		all = append(all, "Node "+strings.TrimSpace(string(version)))
	}
	var manifest struct {
		Dependencies map[string]string `json:"dependencies"`
	}
	text, err := os.ReadFile(filepath.Join(nodeFolder, "package.json"))
	if err == nil && json.Unmarshal(text, &manifest) == nil {
		for _, name := range []string{"graphile-worker", "pg-boss"} {
			all = append(all, name+" "+manifest.Dependencies[name])
		}
	}
	return all
}
