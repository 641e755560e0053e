package pgqueue_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// loggedRooms are the directories whose events docs/logging.md lists.
func loggedRooms() []string {
	return []string{"../pgqueue", "../schedule", "../runner", "../listener", "../reaper", "../migrations", "../metrics", "../outbox", "../worker"}
}

// logEvent is what a call in the source, or a line of the page, says about a message.
type logEvent struct {
	levels string // "warn", or "warn, debug" where that is decided at run time
	attrs  []string
	at     string
}

// logMethods are the methods of slog.Logger, with the place of the message among the arguments.
func logMethods() map[string]struct {
	message int
	level   string
} {
	type method = struct {
		message int
		level   string
	}
	return map[string]method{
		"Debug": {0, "debug"}, "Info": {0, "info"}, "Warn": {0, "warn"}, "Error": {0, "error"},
		"DebugContext": {1, "debug"}, "InfoContext": {1, "info"}, "WarnContext": {1, "warn"}, "ErrorContext": {1, "error"},
		"Log": {2, "warn, debug"}, "LogAttrs": {2, "warn, debug"},
	}
}

// sourceEvents finds the log calls of the rooms. A message that is no constant is an error.
func sourceEvents(t *testing.T) map[string]logEvent {
	t.Helper()
	events := map[string]logEvent{}
	files := token.NewFileSet()
	for _, room := range loggedRooms() {
		err := filepath.WalkDir(room, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(files, path, nil, 0)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(node ast.Node) bool {
				call, ok := node.(*ast.CallExpr)
				if !ok {
					return true
				}
				selector, ok := call.Fun.(*ast.SelectorExpr)
				if !ok || !isLogger(selector.X) {
					return true
				}
				method, ok := logMethods()[selector.Sel.Name]
				if !ok || len(call.Args) <= method.message {
					return true
				}
				at := files.Position(call.Pos()).String()
				literal, ok := call.Args[method.message].(*ast.BasicLit)
				if !ok {
					t.Errorf("%s: the message is no constant", at)
					return true
				}
				message, err := strconv.Unquote(literal.Value)
				if err != nil {
					t.Fatal(err)
				}
				if before, twice := events[message]; twice && before.levels != method.level {
					t.Errorf("%s: %q is logged at another level at %s", at, message, before.at)
				}
				events[message] = logEvent{method.level, attrNames(call.Args[method.message+1:]), at}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return events
}

// isLogger tells by its name whether an expression is a logger: log, logger, x.Logger, x.log.
func isLogger(x ast.Expr) bool {
	switch x := x.(type) {
	case *ast.Ident:
		return strings.EqualFold(x.Name, "logger") || x.Name == "log"
	case *ast.SelectorExpr:
		return strings.EqualFold(x.Sel.Name, "logger") || x.Sel.Name == "log"
	}
	return false
}

// attrNames are the constant names among the arguments after the message; nil where they come as a slice.
func attrNames(args []ast.Expr) (names []string) {
	for i := 0; i < len(args); i++ {
		switch arg := args[i].(type) {
		case *ast.BasicLit: // "name", value
			if name, err := strconv.Unquote(arg.Value); err == nil {
				names = append(names, name)
			}
			i++
		case *ast.CallExpr: // slog.Int("name", value), or append(attrs, "name", value)
			if len(arg.Args) > 0 {
				if literal, ok := arg.Args[0].(*ast.BasicLit); ok {
					if name, err := strconv.Unquote(literal.Value); err == nil {
						names = append(names, name)
					}
				}
			}
		}
	}
	return names
}

// pageEvents reads the tables of the page.
func pageEvents(t *testing.T) map[string]logEvent {
	t.Helper()
	page, err := os.ReadFile("../docs/logging.md")
	if err != nil {
		t.Fatal(err)
	}
	events := map[string]logEvent{}
	row := regexp.MustCompile(`(?m)^\| ([a-z]+: [^|]+) \| ([a-z, ]+) \| ([^|]*)\|`)
	for _, found := range row.FindAllStringSubmatch(string(page), -1) {
		if _, twice := events[found[1]]; twice {
			t.Errorf("docs/logging.md has %q twice", found[1])
		}
		events[found[1]] = logEvent{levels: found[2], attrs: regexp.MustCompile(`[a-z_]+`).FindAllString(found[3], -1)}
	}
	return events
}

func TestLoggingPageListsEveryEvent(t *testing.T) {
	t.Parallel()
	source, page := sourceEvents(t), pageEvents(t)
	if len(source) < 40 {
		t.Errorf("only %d events found in the source", len(source))
	}
	for message, event := range source {
		listed, ok := page[message]
		switch {
		case !ok:
			t.Errorf("%s: docs/logging.md does not list %q", event.at, message)
		case listed.levels != event.levels:
			t.Errorf("%s: %q is logged at %s, and docs/logging.md says %s", event.at, message, event.levels, listed.levels)
		}
		for _, attr := range event.attrs {
			if ok && !slices.Contains(listed.attrs, attr) {
				t.Errorf("%s: docs/logging.md does not list the attribute %s of %q", event.at, attr, message)
			}
		}
	}
	for message := range page {
		if _, ok := source[message]; !ok {
			t.Errorf("docs/logging.md lists %q, which nothing logs", message)
		}
	}
}
