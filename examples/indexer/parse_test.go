package main

import (
	"slices"
	"testing"
)

func TestParseSource(t *testing.T) {
	for _, test := range []struct {
		name       string
		source     string
		lines      int
		exported   []string
		documented int
	}{
		{"nothing", "package p\n", 1, nil, 0},
		{"no line feed at the end", "package p\n\nvar x int", 3, nil, 0},
		{"functions", "package p\n// F does.\nfunc F() {}\nfunc G() {}\nfunc h() {}\n", 5, []string{"F", "G"}, 1},
		{"a comment one line off documents nothing", "package p\n// F does.\n\nfunc F() {}\n", 4, []string{"F"}, 0},
		{"a directive is no documentation", "package p\n//go:noinline\nfunc F() {}\n", 3, []string{"F"}, 0},
		{"methods of exported types", "package p\ntype T struct{}\n// M does.\nfunc (T) M() {}\nfunc (*T) N() {}\nfunc (T) o() {}\n", 6,
			[]string{"T", "T.M", "T.N"}, 1},
		{"methods of other types", "package p\ntype t struct{}\nfunc (t) M() {}\nfunc (*t) Error() string { return \"\" }\n", 4, nil, 0},
		{"generic receivers", "package p\nfunc (T[K]) M() {}\nfunc (*U[K, V]) N() {}\nfunc (u[K]) O() {}\n", 4, []string{"T.M", "U.N"}, 0},
		{"parenthesized receiver", "package p\nfunc ((*T)) M() {}\n", 2, []string{"T.M"}, 0},
		{"an impossible receiver", "package p\nfunc () M() {}\nfunc (int.X) N() {}\n", 3, nil, 0},
		{"a type", "package p\n// T is.\ntype T int\ntype U = T\n", 4, []string{"T", "U"}, 1},
		{"a group of types needs a comment each", "package p\n// Types.\ntype (\n\t// T is.\n\tT int\n\tU int\n\tv int\n)\n", 8, []string{"T", "U"}, 1},
		{"a comment behind a type", "package p\ntype T int // is one\n", 2, []string{"T"}, 1},
		{"a comment above a group of values", "package p\n// All.\nconst (\n\tA = iota\n\tB\n\tc\n)\n", 7, []string{"A", "B"}, 2},
		{"comments in and behind", "package p\nvar (\n\t// A is.\n\tA int\n\tB int // is too\n\tC int\n)\n", 7, []string{"A", "B", "C"}, 2},
		{"several names in a line", "package p\n// Both.\nvar A, b, C int\n", 3, []string{"A", "C"}, 2},
		{"fields and locals are not counted", "package p\ntype T struct{ F int }\nfunc f() { const X = 1; type Y int }\n", 3, []string{"T"}, 0},
		{"letters beyond ASCII", "package p\nfunc Älter() {}\nfunc älter() {}\n", 3, []string{"Älter"}, 0},
		{"imports export nothing", "package p\nimport F \"fmt\"\n", 2, nil, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := parseSource("p.go", []byte(test.source))
			if err != nil {
				t.Fatal(err)
			}
			if got.Package != "p" || got.Lines != test.lines {
				t.Errorf("package %q with %d lines, want p with %d", got.Package, got.Lines, test.lines)
			}
			if got.Exported == nil {
				t.Error("Exported is nil, which Postgres would take for NULL")
			}
			if !slices.Equal(got.Exported, test.exported) {
				t.Errorf("exported %q, want %q", got.Exported, test.exported)
			}
			if got.Documented != test.documented {
				t.Errorf("%d documented, want %d", got.Documented, test.documented)
			}
		})
	}
}

func TestParseSourceRefuses(t *testing.T) {
	for name, source := range map[string]string{
		"empty":            "",
		"no package":       "func F() {}\n",
		"an open brace":    "package p\nfunc F() {\n",
		"a second package": "package p\npackage q\n",
		"not UTF-8":        "package p\nvar s = \"\xff\"\n",
		"a NUL":            "package p\x00\n",
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := parseSource("p.go", []byte(source)); err == nil {
				t.Errorf("parsed as %+v", got)
			}
		})
	}
}
