package console

import "html/template"

// templateFuncs are the functions of all templates.
func templateFuncs() template.FuncMap {
	return template.FuncMap{}
}
