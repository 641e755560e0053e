package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/pgqueue/pgqueue/internal/jsontext"
)

// hidden tells whether a character must not reach a terminal: control characters, which move its cursor and change its title, and what
// changes the direction of the text around it. Producers decide what names, keys and messages hold.
func hidden(r rune) bool {
	return unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp) || r == utf8.RuneError
}

// visible is text with what is hidden written as Go would quote it: one line, whatever it holds.
func visible(text string) string {
	if strings.IndexFunc(text, hidden) < 0 {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if hidden(r) {
			quoted := strconv.QuoteRuneToASCII(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// visibleJSON is a JSON document with what is hidden written as \u0000 escapes, which means the same to whoever reads it. (Such
// characters can only be inside of strings, apart from the line ends and tabs between members, which stay.)
func visibleJSON(text []byte) []byte {
	unsafe := func(r rune) bool { return r != '\n' && r != '\t' && r != '\r' && hidden(r) }
	if bytes.IndexFunc(text, unsafe) < 0 {
		return text
	}
	safe := make([]byte, 0, len(text)+64)
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		switch {
		case !unsafe(r):
			safe = append(safe, text[:size]...)
		case r > 0xFFFF:
			high, low := (r-0x10000)>>10+0xD800, (r-0x10000)&0x3FF+0xDC00
			safe = fmt.Appendf(safe, `\u%04x\u%04x`, high, low)
		default:
			safe = fmt.Appendf(safe, `\u%04x`, r)
		}
		text = text[size:]
	}
	return safe
}

// writeLine writes value as one line of JSON, safe for a terminal, with the digits of raw documents as they are.
func writeLine(to io.Writer, value any) error {
	var line bytes.Buffer
	encoder := json.NewEncoder(&line)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return err
	}
	_, err := to.Write(visibleJSON(line.Bytes()))
	return err
}

// indented is a JSON document for people: in lines if it is small, as it is otherwise.
func indented(text []byte) []byte {
	if len(text) > maxShown {
		return visibleJSON(text)
	}
	return visibleJSON(jsontext.Indent(text))
}

// writeRows writes rows in columns, with a head if there is one. Unlike the tables of other commands they may be one part of many.
func writeRows(to io.Writer, head []string, rows [][]string) error {
	table := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	if head != nil {
		fmt.Fprintln(table, strings.Join(head, "\t"))
	}
	for _, row := range rows {
		cells := make([]string, len(row))
		for n, cell := range row {
			cells[n] = visible(cell)
		}
		fmt.Fprintln(table, strings.Join(cells, "\t"))
	}
	return table.Flush()
}

// shortened is the beginning of text, at most so many characters.
func shortened(text string, most int) string {
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	return string([]rune(text)[:most-1]) + "…"
}

// timeText is a time for people: in UTC, to the second, and how far away it is.
func timeText(at, now time.Time) string {
	if at.IsZero() {
		return "-"
	}
	return at.UTC().Format("2006-01-02 15:04:05Z") + " (" + distance(at, now) + ")"
}

// distance is how far at is from now, in one unit or two.
func distance(at, now time.Time) string {
	d := now.Sub(at)
	if d < 0 {
		return "in " + span(-d)
	}
	return span(d) + " ago"
}

// span is a duration in one unit or two.
func span(d time.Duration) string {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	default:
		return fmt.Sprintf("%dd%02dh", int(d.Hours())/24, int(d.Hours())%24)
	}
}

// grouped is a number with its thousands apart.
func grouped(n int) string {
	digits := strconv.Itoa(n)
	for place := len(digits) - 3; place > 0 && digits[place-1] != '-'; place -= 3 {
		digits = digits[:place] + "," + digits[place:]
	}
	return digits
}

// plural is a number of things.
func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return grouped(n) + " " + many
}

// byteSize is a size for people.
func byteSize(n int) string {
	switch {
	case n < 1<<10:
		return plural(n, "byte", "bytes")
	case n < 1<<20:
		return fmt.Sprintf("%.1f kB", float64(n)/(1<<10))
	default:
		return fmt.Sprintf("%.1f MB", float64(n)/(1<<20))
	}
}

// shellWord is text as one word of a POSIX shell, and of bash where it holds what a terminal must not see.
func shellWord(text string) string {
	plain := func(r rune) bool {
		return r < utf8.RuneSelf && (unicode.IsLetter(r) || unicode.IsDigit(r)) || strings.ContainsRune("_-+=./:,@%", r)
	}
	switch {
	case text != "" && strings.IndexFunc(text, func(r rune) bool { return !plain(r) }) < 0:
		return text
	case strings.IndexFunc(text, hidden) < 0:
		return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
	}
	var b strings.Builder
	b.WriteString("$'")
	for n := range len(text) {
		if c := text[n]; c >= ' ' && c < 0x7F && c != '\'' && c != '\\' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, `\%03o`, c)
		}
	}
	b.WriteString("'")
	return b.String()
}
