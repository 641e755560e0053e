package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

const out = "../static"

func main() {
	check := flag.Bool("check", false, "compare what is built with what is committed, and write nothing")
	tests := flag.String("tests", "", "bundle test/*.ts into this directory instead")
	flag.Parse()
	if err := run(*check, *tests); err != nil {
		fmt.Fprintln(os.Stderr, "assets:", err)
		os.Exit(1)
	}
}

func run(check bool, tests string) error {
	if tests != "" {
		return buildTests(tests)
	}
	built, err := build()
	if err != nil {
		return err
	}
	if check {
		return compare(built)
	}
	return write(built)
}

// files are what is built, by path from this directory.
type files map[string][]byte

func write(built files) error {
	stale, err := leftovers(built)
	if err != nil {
		return err
	}
	for _, path := range stale {
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	for path, content := range built {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// compare fails where the committed files are not what their sources give.
func compare(built files) error {
	stale, err := leftovers(built)
	if err != nil {
		return err
	}
	var wrong []string
	for _, path := range stale {
		wrong = append(wrong, path+" is not built of anything")
	}
	for path, content := range built {
		committed, err := os.ReadFile(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			wrong = append(wrong, path+" is missing")
		case err != nil:
			return err
		case !bytes.Equal(committed, content):
			wrong = append(wrong, path+" differs from its sources")
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	slices.Sort(wrong)
	for _, line := range wrong {
		fmt.Fprintln(os.Stderr, line)
	}
	return errors.New("run `make assets` and commit what it makes")
}

// leftovers are files in the output directory that the build does not make.
func leftovers(built files) ([]string, error) {
	entries, err := os.ReadDir(out)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var stale []string
	for _, entry := range entries {
		if path := filepath.Join(out, entry.Name()); built[path] == nil {
			stale = append(stale, path)
		}
	}
	return stale, nil
}
