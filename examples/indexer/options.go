package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// options is what flags and environment say. Nobody needs to set any of it; tests do.
type options struct {
	root        string        // the tree of Go files; empty means GOROOT/src
	databaseURL string        // empty means a database of our own in dataDir
	dataDir     string        // of our own database; empty means .demo at the root of the repository
	killFrom    int           // kill a worker when at least this many files are enqueued
	lease       time.Duration // 0 means pgqueue's default
	pause       time.Duration // extra time for each file, so that a test can catch a worker at work
}

// defaultKillFrom is how much work it takes to kill somebody over it: fewer files are done before the kill.
const defaultKillFrom = 500

func parseOptions(args []string, stderr io.Writer) (options, error) {
	var opts options
	flags := flag.NewFlagSet("indexer", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprintln(stderr, "usage: indexer [serve] [flags]\n\nDATABASE_URL, if set, is the database to use; otherwise the demo starts one of its own.")
		flags.PrintDefaults()
	}
	flags.StringVar(&opts.root, "root", os.Getenv("INDEXER_ROOT"), "the `folder` of Go files to index (default GOROOT/src, or INDEXER_ROOT)")
	flags.StringVar(&opts.dataDir, "data", "", "the `folder` of the demo's own database (default .demo at the root of the repository)")
	flags.IntVar(&opts.killFrom, "kill-from", defaultKillFrom, "kill a worker only if at least this many `files` are to do")
	flags.DurationVar(&opts.lease, "lease", 0, "a shorter lease, for tests (default: pgqueue's)")
	flags.DurationVar(&opts.pause, "pause", 0, "extra time for each file, for tests")
	opts.databaseURL = os.Getenv("DATABASE_URL")
	if err := flags.Parse(args); err != nil {
		return options{}, err
	}
	if flags.NArg() > 0 {
		err := fmt.Errorf("unknown argument %q", flags.Arg(0))
		fmt.Fprintln(stderr, err)
		flags.Usage()
		return options{}, err
	}
	return opts, nil
}

// sourceRoot returns the absolute path of the tree to index.
func (o options) sourceRoot() (string, error) {
	root, what := o.root, "the root"
	if root == "" {
		goroot, err := goRoot()
		if err != nil {
			return "", err
		}
		root, what = filepath.Join(goroot, "src"), "the standard library's source"
	}
	root, err := filepath.Abs(root)
	if err != nil {
		return "", fmt.Errorf("find %s: %w", what, err)
	}
	info, err := os.Stat(root)
	if err != nil {
		return "", fmt.Errorf("find %s: %w; is this Go installation complete? -root names another folder", what, err)
	}
	if !info.IsDir() {
		return "", fmt.Errorf("find %s: %s is not a folder", what, root)
	}
	return root, nil
}

// goRoot asks the environment and then the go command. The running binary does not know it reliably: it may have been
// built elsewhere.
func goRoot() (string, error) {
	if goroot := os.Getenv("GOROOT"); goroot != "" {
		return goroot, nil
	}
	output, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return "", fmt.Errorf("ask the go command for GOROOT: %w; set GOROOT, or name a folder with -root", err)
	}
	if goroot := strings.TrimSpace(string(output)); goroot != "" {
		return goroot, nil
	}
	return "", errors.New("the go command knows no GOROOT; set it, or name a folder with -root")
}

// ownModule is what the go.mod at the root of the repository says.
const ownModule = "module github.com/pgqueue/pgqueue"

// repositoryRoot looks for the core module's go.mod from dir upwards.
func repositoryRoot(dir string) (string, error) {
	for at := dir; ; at = filepath.Dir(at) {
		content, err := os.ReadFile(filepath.Join(at, "go.mod"))
		if err == nil && firstLine(string(content)) == ownModule {
			return at, nil
		}
		if at == filepath.Dir(at) {
			return "", fmt.Errorf("%s is in no clone of pgqueue: start the demo inside one, or set -data or DATABASE_URL", dir)
		}
	}
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return strings.TrimSpace(line)
}
