package doctor

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
)

// ident quotes names that belong together: ident("My schema", "jobs") is "My schema"."jobs".
func ident(names ...string) string { return pgx.Identifier(names).Sanitize() }

// literal writes a string literal that means the same whether standard_conforming_strings is on or off.
func literal(s string) string {
	s = strings.ReplaceAll(s, `'`, `''`)
	if !strings.Contains(s, `\`) {
		return `'` + s + `'`
	}
	return `E'` + strings.ReplaceAll(s, `\`, `\\`) + `'`
}

// excerpt is the beginning of a query, on one line.
func excerpt(query string) string {
	const most = 120
	text := strings.Join(strings.Fields(query), " ")
	if len(text) <= most {
		return text
	}
	text = text[:most]
	for !utf8.ValidString(text) {
		text = text[:len(text)-1]
	}
	return text + "…"
}

// bytesText writes a size as people read it.
func bytesText(n int64) string {
	size, unit := float64(n), "bytes"
	for _, next := range []string{"kB", "MB", "GB", "TB"} {
		if size < 1024 {
			break
		}
		size, unit = size/1024, next
	}
	if unit == "bytes" {
		return fmt.Sprintf("%d bytes", n)
	}
	return fmt.Sprintf("%.1f %s", size, unit)
}

// seconds writes a number of seconds as a duration.
func seconds(s float64) string {
	const century = 100 * 365 * 24 * 3600
	switch {
	case s > century:
		return "more than a century"
	case s < 10:
		return (time.Duration(s*1000) * time.Millisecond).String()
	}
	return (time.Duration(s) * time.Second).String()
}

// interval writes a duration as a literal of SQL.
func interval(d time.Duration) string {
	return fmt.Sprintf("interval '%g seconds'", d.Seconds())
}

// plural writes a count with its noun.
func plural(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
