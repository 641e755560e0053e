package main

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
)

// sourceFacts is what the index knows about one Go file.
type sourceFacts struct {
	Package    string   // the package clause
	Lines      int      // a last line without a line feed counts
	Exported   []string // top-level names, and methods of exported types as Type.Method, in the file's order
	Documented int      // how many of Exported have a doc comment
}

// parseSource reads one Go file. Its error is the parser's: the file is no Go.
func parseSource(path string, source []byte) (sourceFacts, error) {
	file, err := parser.ParseFile(token.NewFileSet(), path, source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return sourceFacts{}, err
	}
	facts := sourceFacts{Package: file.Name.Name, Lines: countLines(source), Exported: []string{}}
	for _, declaration := range file.Decls {
		switch declaration := declaration.(type) {
		case *ast.FuncDecl:
			if name, ok := exportedFunc(declaration); ok {
				facts.add(name, declaration.Doc)
			}
		case *ast.GenDecl:
			facts.addGroup(declaration)
		}
	}
	return facts, nil
}

// addGroup adds what a const, var or type declaration exports. A comment above a parenthesized const or var group
// speaks for all of its names, and so does one behind a line; a type needs its own.
func (f *sourceFacts) addGroup(group *ast.GenDecl) {
	for _, spec := range group.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			if spec.Name.IsExported() {
				doc := spec.Doc
				if !group.Lparen.IsValid() {
					doc = group.Doc // type T …: the parser attaches the comment to the group
				}
				f.add(spec.Name.Name, doc, spec.Comment)
			}
		case *ast.ValueSpec:
			for _, name := range spec.Names {
				if name.IsExported() {
					f.add(name.Name, group.Doc, spec.Doc, spec.Comment)
				}
			}
		}
	}
}

// add notes an exported name and whether any of the comments says something.
func (f *sourceFacts) add(name string, comments ...*ast.CommentGroup) {
	f.Exported = append(f.Exported, name)
	for _, comment := range comments {
		if comment != nil && comment.Text() != "" { // Text leaves directives such as //go:noinline out
			f.Documented++
			return
		}
	}
}

// exportedFunc names an exported function, or an exported method of an exported type.
func exportedFunc(function *ast.FuncDecl) (string, bool) {
	if !function.Name.IsExported() {
		return "", false
	}
	if function.Recv == nil {
		return function.Name.Name, true
	}
	if len(function.Recv.List) == 0 {
		return "", false // func () F(): parses, but the compiler would refuse it
	}
	receiver := receiverName(function.Recv.List[0].Type)
	if receiver == nil || !receiver.IsExported() {
		return "", false
	}
	return receiver.Name + "." + function.Name.Name, true
}

// receiverName strips pointers, parentheses and type parameters.
func receiverName(expression ast.Expr) *ast.Ident {
	for {
		switch e := expression.(type) {
		case *ast.Ident:
			return e
		case *ast.StarExpr:
			expression = e.X
		case *ast.ParenExpr:
			expression = e.X
		case *ast.IndexExpr:
			expression = e.X
		case *ast.IndexListExpr:
			expression = e.X
		default:
			return nil
		}
	}
}

func countLines(source []byte) int {
	lines := bytes.Count(source, []byte("\n"))
	if len(source) > 0 && source[len(source)-1] != '\n' {
		lines++
	}
	return lines
}
