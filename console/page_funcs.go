package console

import (
	"errors"
	"fmt"
	"html/template"
	"math"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pgqueue/pgqueue/pgqueue"
)

// templateFuncs are the functions of all templates. Those that make elements escape what they are given.
//
//	{{ago .CreatedAt}}              <time datetime title>5 min ago</time>, also "in 5 min"; a dash for the zero time
//	{{duration .Wait}}              1.2 s
//	{{bytes .Size}}                 1.5 MB
//	{{number .Depth}}               1,234,567
//	{{stateBadge .State}}           <span class="badge" data-state="dead">dead</span>
//	{{excerpt .Payload}}            <code>{"a":1}…</code> and its size where it is cut; takes a pgqueue.Excerpt, or a text
//	{{excerpt .LastMessage 80}}     cut to 80 characters
//	{{dict "name" .Name "n" 3}}     a map, for parts that need several values
//	{{join .Tags ", "}}             one text
//	{{segment .Queue}}              a name as one segment of a path
//	{{asset "console.js"}}          the address of a static file, with its version
func templateFuncs(assets *assets) template.FuncMap {
	return template.FuncMap{
		"ago":        func(t time.Time) template.HTML { return ago(t, time.Now()) },
		"duration":   duration,
		"bytes":      bytesText,
		"number":     number,
		"stateBadge": stateBadge,
		"excerpt":    excerptHTML,
		"dict":       dict,
		"join":       func(list []string, separator string) string { return strings.Join(list, separator) },
		"segment":    segment,
		"asset":      assets.address,
	}
}

// segment is a name as one segment of a path, whatever it holds: '/', '%', spaces. A segment of dots alone would be taken for a
// way through the tree, by browsers even where its dots are escaped, and a slash alone for the end of a path, by http.ServeMux. So these
// get a mark, and so does what begins with the mark. The routes take it off again: PathValue gives the name.
func segment(name string) string {
	if name == "." || name == ".." || name == "/" || strings.HasPrefix(name, segmentMark) {
		return segmentMark + url.PathEscape(name)
	}
	return url.PathEscape(name)
}

const segmentMark = "~"

// ago is a time in words, and exactly for those who point at it. Scripts keep the words up to date.
func ago(t, now time.Time) template.HTML {
	if t.IsZero() {
		return `<span class="muted">–</span>`
	}
	utc := t.UTC()
	words, distance := "just now", now.Sub(utc)
	switch {
	case distance >= time.Second:
		words = far(now.Unix()-utc.Unix(), distance) + " ago"
	case distance <= -time.Second:
		words = "in " + far(utc.Unix()-now.Unix(), utc.Sub(now)) // -distance overflows where the distance is the longest there is
	}
	return template.HTML(fmt.Sprintf(`<time datetime="%s" title="%s">%s</time>`,
		utc.Format("2006-01-02T15:04:05.000Z07:00"), utc.Format("2006-01-02 15:04:05.000 UTC"), words))
}

// far is coarse for what may be further away than a time.Duration reaches, which is 292 years.
func far(seconds int64, distance time.Duration) string {
	if days := seconds / (24 * 60 * 60); days > 1000 {
		return strconv.FormatInt(days, 10) + " d"
	}
	return coarse(distance)
}

// coarse is a duration in its largest unit.
func coarse(d time.Duration) string {
	switch {
	case d < time.Minute:
		return strconv.Itoa(int(d/time.Second)) + " s"
	case d < time.Hour:
		return strconv.Itoa(int(d/time.Minute)) + " min"
	case d < 48*time.Hour:
		return strconv.Itoa(int(d/time.Hour)) + " h"
	default:
		return strconv.Itoa(int(d/(24*time.Hour))) + " d"
	}
}

// duration is a duration in its two largest units.
func duration(d time.Duration) string {
	sign := ""
	if d < 0 {
		sign, d = "-", -d
	}
	units := func(large time.Duration, largeName string, small time.Duration, smallName string) string {
		d := d.Round(small)
		text := sign + strconv.FormatInt(int64(d/large), 10) + " " + largeName
		if rest := d % large / small; rest > 0 {
			text += " " + strconv.FormatInt(int64(rest), 10) + " " + smallName
		}
		return text
	}
	switch {
	case d == 0:
		return "0 s"
	case d < time.Millisecond:
		return sign + strconv.FormatInt(d.Microseconds(), 10) + " µs"
	case d < time.Second:
		return sign + strconv.FormatInt(d.Milliseconds(), 10) + " ms"
	case d < 10*time.Second:
		return sign + strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + " s"
	case d < time.Minute:
		return sign + strconv.FormatInt(int64(d/time.Second), 10) + " s"
	case d < time.Hour:
		return units(time.Minute, "min", time.Second, "s")
	case d < 24*time.Hour:
		return units(time.Hour, "h", time.Minute, "min")
	default:
		return units(24*time.Hour, "d", time.Hour, "h")
	}
}

// bytesText is a size, in powers of 1000.
func bytesText(size any) (string, error) {
	n, err := toFloat(size)
	if err != nil {
		return "", err
	}
	for _, unit := range []string{"B", "kB", "MB", "GB", "TB"} {
		if math.Abs(n) < 999.5 {
			if unit == "B" || math.Abs(n) >= 99.95 {
				return strconv.FormatFloat(n, 'f', 0, 64) + " " + unit, nil
			}
			return strings.TrimSuffix(strconv.FormatFloat(n, 'f', 1, 64), ".0") + " " + unit, nil
		}
		n /= 1000
	}
	return strconv.FormatFloat(n, 'f', 0, 64) + " PB", nil
}

// number is a number with its thousands apart; what is no whole number has up to two digits behind the point.
func number(value any) (string, error) {
	n, err := toFloat(value)
	if err != nil {
		return "", err
	}
	text := strconv.FormatFloat(n, 'f', 0, 64)
	if n != math.Trunc(n) && math.Abs(n) < 1000 {
		text = strings.TrimRight(strings.TrimRight(strconv.FormatFloat(n, 'f', 2, 64), "0"), ".")
	}
	sign := ""
	if strings.HasPrefix(text, "-") {
		sign, text = "-", text[1:]
	}
	whole, fraction, _ := strings.Cut(text, ".")
	for at := len(whole) - 3; at > 0; at -= 3 {
		whole = whole[:at] + "," + whole[at:]
	}
	if fraction != "" {
		whole += "." + fraction
	}
	return sign + whole, nil
}

// toFloat takes any number of Go. Those above 2^53 lose their last digits, which is more than any page shows exactly.
func toFloat(value any) (float64, error) {
	v := reflect.ValueOf(value)
	switch {
	case v.CanInt():
		return float64(v.Int()), nil
	case v.CanUint():
		return float64(v.Uint()), nil
	case v.CanFloat():
		return v.Float(), nil
	default:
		return 0, fmt.Errorf("%T is no number", value)
	}
}

// stateBadge is a state as a badge.
func stateBadge(state any) template.HTML {
	text := template.HTMLEscapeString(fmt.Sprint(state))
	return template.HTML(`<span class="badge" data-state="` + text + `">` + text + `</span>`)
}

// excerptHTML is the beginning of a text, and how much there is of it.
func excerptHTML(value any, limits ...int) (template.HTML, error) {
	var shown pgqueue.Excerpt
	switch value := value.(type) {
	case pgqueue.Excerpt:
		shown = value
	case string:
		shown = pgqueue.Excerpt{Text: value, Size: len(value)}
	default:
		return "", fmt.Errorf("excerpt takes a text or a pgqueue.Excerpt, not %T", value)
	}
	if len(limits) > 0 && utf8.RuneCountInString(shown.Text) > limits[0] {
		shown.Text, shown.Cut = string([]rune(shown.Text)[:limits[0]]), true
	}
	text := template.HTMLEscapeString(shown.Text)
	if shown.Cut {
		size, err := bytesText(shown.Size)
		if err != nil {
			return "", err
		}
		if text != "" {
			text += "… "
		}
		return template.HTML(`<code class="excerpt">` + text + `<span class="muted">` + size + `</span></code>`), nil
	}
	return template.HTML(`<code class="excerpt">` + text + `</code>`), nil
}

// dict makes a map of names and values that take turns.
func dict(pairs ...any) (map[string]any, error) {
	if len(pairs)%2 != 0 {
		return nil, errors.New("dict takes names and values in turn")
	}
	made := make(map[string]any, len(pairs)/2)
	for i := 0; i < len(pairs); i += 2 {
		name, ok := pairs[i].(string)
		if !ok {
			return nil, fmt.Errorf("dict: %T is no name", pairs[i])
		}
		made[name] = pairs[i+1]
	}
	return made, nil
}
