package metrics_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// parseYAML parses the part of YAML that the files in deploy/ keep to: mappings, sequences, plain and double-quoted scalars,
// JSON in one line, and literal blocks. Anything else is an error. It returns map[string]any, []any and string.
func parseYAML(text string) (any, error) {
	if strings.Contains(text, "\t") {
		return nil, fmt.Errorf("a tab")
	}
	p := &yamlParser{lines: strings.Split(text, "\n")}
	value, err := p.node(0)
	if err == nil {
		if _, _, more := p.peek(); more {
			err = fmt.Errorf("not expected here")
		}
	}
	if err != nil {
		return nil, fmt.Errorf("line %d: %w", p.at+1, err)
	}
	return value, nil
}

type yamlParser struct {
	lines []string
	at    int
}

// peek returns the next line that says something, and its indentation.
func (p *yamlParser) peek() (text string, indent int, more bool) {
	for ; p.at < len(p.lines); p.at++ {
		line := strings.TrimRight(p.lines[p.at], " ")
		text = strings.TrimLeft(line, " ")
		if text != "" && !strings.HasPrefix(text, "#") {
			return text, len(line) - len(text), true
		}
	}
	return "", 0, false
}

// node parses what is indented by at least so much.
func (p *yamlParser) node(least int) (any, error) {
	text, indent, more := p.peek()
	if !more || indent < least {
		return nil, fmt.Errorf("nothing where a value should be")
	}
	if strings.HasPrefix(text, "- ") {
		return p.sequence(indent)
	}
	return p.mapping(indent)
}

func (p *yamlParser) sequence(indent int) (any, error) {
	all := []any{}
	for {
		text, at, more := p.peek()
		if !more || at < indent || at == indent && !strings.HasPrefix(text, "- ") {
			return all, nil
		}
		if at > indent {
			return nil, fmt.Errorf("indented too far")
		}
		item := strings.TrimPrefix(text, "- ")
		if _, _, isPair := pair(item); isPair {
			p.lines[p.at] = strings.Repeat(" ", indent+2) + item // the mapping goes on below it
			value, err := p.mapping(indent + 2)
			if err != nil {
				return nil, err
			}
			all = append(all, value)
			continue
		}
		value, err := scalar(item)
		if err != nil {
			return nil, err
		}
		p.at++
		all = append(all, value)
	}
}

func (p *yamlParser) mapping(indent int) (any, error) {
	all := map[string]any{}
	for {
		text, at, more := p.peek()
		if !more || at < indent || at == indent && strings.HasPrefix(text, "- ") {
			return all, nil
		}
		key, rest, isPair := pair(text)
		if at > indent || !isPair {
			return nil, fmt.Errorf("no key of a mapping: %q", text)
		}
		if _, twice := all[key]; twice {
			return nil, fmt.Errorf("%q twice", key)
		}
		p.at++
		var err error
		switch rest {
		case "":
			if next, at, more := p.peek(); !more || at < indent || at == indent && !strings.HasPrefix(next, "- ") {
				all[key] = nil
				continue
			}
			all[key], err = p.node(indent)
		case "|":
			all[key] = p.block(indent)
		default:
			all[key], err = scalar(rest)
		}
		if err != nil {
			return nil, err
		}
	}
}

// block takes the lines that are indented further.
func (p *yamlParser) block(indent int) string {
	var lines []string
	own := 0 // indentation, that of its first line
	for ; p.at < len(p.lines); p.at++ {
		line := p.lines[p.at]
		if text := strings.TrimLeft(line, " "); text != "" {
			if own == 0 {
				own = max(indent+1, len(line)-len(text))
			}
			if len(line)-len(text) < own {
				break
			}
		}
		lines = append(lines, strings.TrimSpace(line))
	}
	return strings.TrimSpace(strings.Join(lines, "\n"))
}

func pair(text string) (key, rest string, isPair bool) {
	if strings.HasPrefix(text, `"`) {
		return "", "", false
	}
	key, rest, found := strings.Cut(text, ":")
	if !found || rest != "" && !strings.HasPrefix(rest, " ") || strings.ContainsAny(key, `"{}[]`) {
		return "", "", false
	}
	return key, strings.TrimSpace(rest), true
}

func scalar(text string) (any, error) {
	if strings.ContainsAny(text[:1], `"[{`) {
		var value any
		if err := json.Unmarshal([]byte(text), &value); err != nil {
			return nil, fmt.Errorf("%s: %w", text, err)
		}
		return value, nil
	}
	if strings.ContainsAny(text[:1], "&*!>%@`'|") || strings.Contains(text, ": ") || strings.Contains(text, " #") {
		return nil, fmt.Errorf("a scalar that needs quotes: %s", text)
	}
	return text, nil
}

// The parser is what the other tests rely on, so it must refuse what is wrong.
func TestYAMLThatIsWrongIsRefused(t *testing.T) {
	for _, text := range []string{
		"a: b: c", "a: 1\na: 2", "a:\n  b: 1\n c: 2", "\ta: 1", "a: \"open", "- 1\nb: 2", "a: 'x'", "just text", "a: |\n  x\n b: 1", "",
		"a:\n  - b: 1\n   c: 2",
	} {
		if value, err := parseYAML(text); err == nil {
			t.Errorf("%q was taken, as %v", text, value)
		}
	}
	value, err := parseYAML("# x\na:\n- 1\n- b: \"x: y\"\n  c: |\n    one\n      two\n\n  d: [\"z\"]\ne:\n")
	if got := fmt.Sprint(value); err != nil || got != "map[a:[1 map[b:x: y c:one\ntwo d:[z]]] e:<nil>]" {
		t.Errorf("%v, %v", got, err)
	}
}
