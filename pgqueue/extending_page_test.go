package pgqueue_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// observerInterfaces finds the exported interfaces whose names end in Observer, as package.Name.
func observerInterfaces(t *testing.T) (names []string) {
	t.Helper()
	files := token.NewFileSet()
	for _, room := range []string{"pgqueue", "runner", "listener", "reaper", "schedule", "outbox", "migrations", "sqltx"} {
		paths, err := filepath.Glob(filepath.Join("..", room, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(files, path, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(node ast.Node) bool {
				spec, ok := node.(*ast.TypeSpec)
				if !ok {
					return true
				}
				if _, ok := spec.Type.(*ast.InterfaceType); ok && spec.Name.IsExported() && strings.HasSuffix(spec.Name.Name, "Observer") {
					names = append(names, room+"."+spec.Name.Name)
				}
				return false
			})
		}
	}
	return names
}

// The page has one row for each, and says all three things about it.
func TestExtendingPageListsEveryObserver(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/extending.md")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	row := regexp.MustCompile(`(?m)^\| ([a-z]+\.[A-Za-z]+) \| ([^|]+) \| ([^|]+) \|$`)
	for _, found := range row.FindAllStringSubmatch(string(page), -1) {
		if listed[found[1]] {
			t.Errorf("docs/extending.md has %s twice", found[1])
		}
		listed[found[1]] = true
	}
	source := observerInterfaces(t)
	if len(source) < 20 {
		t.Errorf("only %d interfaces found: %v", len(source), source)
	}
	for _, name := range source {
		if !listed[name] {
			t.Errorf("docs/extending.md does not list %s", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(listed)) {
		if !slices.Contains(source, name) {
			t.Errorf("docs/extending.md lists %s, which does not exist", name)
		}
	}
}
