package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// collectPackages adds the npm packages whose files went into a bundle. What is only needed to check or to build is not among
// them, and needs no notice.
func collectPackages(metafile string, packages map[string]bool) error {
	var meta struct {
		Inputs map[string]json.RawMessage `json:"inputs"`
	}
	if err := json.Unmarshal([]byte(metafile), &meta); err != nil {
		return fmt.Errorf("read the metafile: %w", err)
	}
	for input := range meta.Inputs {
		_, inside, ok := strings.Cut(filepath.ToSlash(input), "node_modules/")
		if !ok {
			continue
		}
		parts := strings.SplitN(inside, "/", 3)
		name := parts[0]
		if strings.HasPrefix(name, "@") && len(parts) > 1 {
			name += "/" + parts[1]
		}
		packages[name] = true
	}
	return nil
}

// notice is the text of NOTICE: name, version and licence of each bundled package. A package without a licence file is an
// error, and so is a licence that nobody has looked at.
func notice(packages map[string]bool) ([]byte, error) {
	names := make([]string, 0, len(packages))
	for name := range packages {
		names = append(names, name)
	}
	slices.Sort(names)
	var text bytes.Buffer
	text.WriteString("The scripts and styles of pgqueue's console are under pgqueue's licence (MIT), and contain:\n")
	for _, name := range names {
		dir := filepath.Join("node_modules", filepath.FromSlash(name))
		about, err := os.ReadFile(filepath.Join(dir, "package.json"))
		if err != nil {
			return nil, err
		}
		var of struct{ Version, License string }
		if err := json.Unmarshal(about, &of); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if !slices.Contains([]string{"0BSD", "MIT", "ISC", "BSD-2-Clause", "BSD-3-Clause"}, of.License) {
			return nil, fmt.Errorf("%s is under %q: may it be bundled? Then add the licence to notice.go", name, of.License)
		}
		licence, err := os.ReadFile(filepath.Join(dir, "LICENSE"))
		if err != nil {
			return nil, err
		}
		licence = bytes.ReplaceAll(licence, []byte("\r\n"), []byte("\n"))
		fmt.Fprintf(&text, "\n%s\n%s %s (%s)\n\n%s\n", strings.Repeat("-", 72), name, of.Version, of.License, bytes.TrimSpace(licence))
	}
	return text.Bytes(), nil
}
