package console

import (
	"fmt"
	"html"
	"strings"
	"testing"
)

// element is a start tag as a browser reads it.
type element struct {
	name       string
	attributes []attribute // in their order
}

type attribute struct{ name, value string }

func (e element) attribute(name string) string {
	for _, a := range e.attributes {
		if a.name == name {
			return a.value
		}
	}
	return ""
}

// shape is the element without the values of its attributes.
func (e element) shape() string {
	names := make([]string, len(e.attributes))
	for i, a := range e.attributes {
		names[i] = a.name
	}
	return "<" + e.name + " " + strings.Join(names, " ") + ">"
}

// elements reads HTML by the rules of the standard's tokenizer, as far as they decide where elements and attributes begin. What is
// not escaped makes elements here as it does in a browser.
func elements(document string) (found []element) {
	for rest := document; ; {
		at := strings.IndexByte(rest, '<')
		if at < 0 {
			return found
		}
		rest = rest[at+1:]
		switch {
		case strings.HasPrefix(rest, "!--"):
			_, rest, _ = strings.Cut(rest[3:], "-->")
		case strings.HasPrefix(rest, "!"), strings.HasPrefix(rest, "?"), strings.HasPrefix(rest, "/"):
			_, rest, _ = strings.Cut(rest, ">")
		case rest != "" && isLetter(rest[0]):
			var e element
			e, rest = tag(rest)
			found = append(found, e)
			switch e.name { // text up to the end tag
			case "script", "style", "textarea", "title":
				if end := strings.Index(strings.ToLower(rest), "</"+e.name); end >= 0 {
					rest = rest[end:]
				}
			}
		}
	}
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

const blanks = " \t\n\f\r"

// tag reads a start tag behind its <.
func tag(rest string) (e element, behind string) {
	end := strings.IndexAny(rest, blanks+"/>")
	if end < 0 {
		return element{name: strings.ToLower(rest)}, ""
	}
	e.name, rest = strings.ToLower(rest[:end]), rest[end:]
	for {
		rest = strings.TrimLeft(rest, blanks+"/")
		if rest == "" {
			return e, ""
		}
		if rest[0] == '>' {
			return e, rest[1:]
		}
		end := 1 + strings.IndexAny(rest[1:], blanks+"/>=") // an = may begin a name
		if end == 0 {
			end = len(rest)
		}
		a := attribute{name: strings.ToLower(rest[:end])}
		rest = rest[end:]
		if value, ok := strings.CutPrefix(strings.TrimLeft(rest, blanks), "="); ok {
			value = strings.TrimLeft(value, blanks)
			switch {
			case value != "" && (value[0] == '"' || value[0] == '\''):
				a.value, rest, _ = strings.Cut(value[1:], value[:1])
			default:
				end := strings.IndexAny(value, blanks+">")
				if end < 0 {
					end = len(value)
				}
				a.value, rest = value[:end], value[end:]
			}
		}
		a.value = html.UnescapeString(a.value)
		e.attributes = append(e.attributes, a)
	}
}

// The reader itself sees what is to be found.
func TestElements(t *testing.T) {
	for document, want := range map[string]string{
		`<p>a < b &lt;img&gt;</p><br/>`:                        `<p ><br >`,
		`<a href="x" title='"><b>'>y</a>`:                      `<a href title>`,
		`<a href="x"><img src=x onerror=1>">`:                  `<a href><img src onerror>`,
		`<svg/onload=alert(1)>`:                                `<svg onload>`,
		`<a title='' onmouseover=1 '>`:                         `<a title onmouseover '>`,
		`<title></title><script>1</script><p>`:                 `<title ><script ><p >`,
		`<script>"<img>"</script><!-- <i> --><b>`:              `<script ><b >`,
		`<IMG SRC = "a" disabled>`:                             `<img src disabled>`,
		`<textarea><b></textarea><u>`:                          `<textarea ><u >`,
		`<input value=a&quot;onfocus=1><p class=x/onclick=1 >`: `<input value><p class>`,
	} {
		got := ""
		for _, e := range elements(document) {
			got += e.shape()
		}
		if got != want {
			t.Errorf("%s: %s, want %s", document, got, want)
		}
	}
	if value := elements(`<a href="javascript&colon;1">`)[0].attribute("href"); value != "javascript:1" {
		t.Errorf("value %q", value)
	}
}

// difference says where two documents have other elements or attributes; "": nowhere.
func difference(a, b string) string {
	one, other := elements(a), elements(b)
	for i := range one {
		if i >= len(other) {
			return fmt.Sprintf("element %d is %s, and there is no such in the other, which ends with %s", i, one[i].shape(), shapes(other, len(other)))
		}
		if one[i].shape() != other[i].shape() {
			return fmt.Sprintf("element %d is %s, in the other %s; behind %s", i, one[i].shape(), other[i].shape(), shapes(one, i))
		}
	}
	if len(other) > len(one) {
		return fmt.Sprintf("the other has %d elements more, %s", len(other)-len(one), other[len(one)].shape())
	}
	return ""
}

// shapes are the last shapes before the element n.
func shapes(all []element, n int) (text string) {
	for _, e := range all[max(0, n-4):n] {
		text += e.shape()
	}
	return text
}
