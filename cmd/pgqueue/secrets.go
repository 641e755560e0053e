package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// shortestSecret is how long a password must be to be looked for in what is written. Shorter ones would turn up in any text; they are
// kept out, like all others, by never being written in the first place.
const shortestSecret = 4

// secrets are the texts that must not be shown. Messages are built without them; this is for those that others build: of a driver, a
// server, of cobra about a connection string that was given in the wrong place. It is safe for concurrent use.
type secrets struct {
	mu       sync.Mutex
	forms    []string
	replacer *strings.Replacer
}

// add names secrets.
func (s *secrets) add(texts ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, text := range texts {
		if len(text) >= shortestSecret {
			s.forms = append(s.forms, formsOf(text)...)
		}
	}
	s.rebuild()
}

// forget says that a text is no secret: a password that is the name of the user, say, which is shown.
func (s *secrets) forget(texts ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forms = slices.DeleteFunc(s.forms, func(form string) bool { return slices.Contains(texts, form) })
	s.rebuild()
}

// rebuild makes the replacer. The longest form comes first: a replacer takes the first of its pairs that fits.
func (s *secrets) rebuild() {
	slices.SortFunc(s.forms, func(a, b string) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return strings.Compare(a, b)
	})
	s.forms = slices.Compact(s.forms)
	pairs := make([]string, 0, 2*len(s.forms))
	for _, form := range s.forms {
		pairs = append(pairs, form, "***")
	}
	s.replacer = strings.NewReplacer(pairs...)
}

// hide takes the secrets out of a text.
func (s *secrets) hide(text string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.replacer == nil {
		return text
	}
	return s.replacer.Replace(text)
}

// writer is w without the secrets. A secret that is split over two calls of Write is not found; log lines and messages are one call.
func (s *secrets) writer(w io.Writer) io.Writer { return &hidingWriter{to: w, secrets: s} }

type hidingWriter struct {
	to      io.Writer
	secrets *secrets
}

func (h *hidingWriter) Write(p []byte) (int, error) {
	if _, err := io.WriteString(h.to, h.secrets.hide(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// IsTerminal passes the question on; see isTerminal.
func (h *hidingWriter) IsTerminal() bool { return isTerminal(h.to) }

// formsOf is a secret in all ways in which a message may quote it.
func formsOf(secret string) []string {
	every := strings.Builder{} // each byte that is no letter or digit, as libpq's own examples encode
	for _, b := range []byte(secret) {
		if b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' {
			every.WriteByte(b)
		} else {
			fmt.Fprintf(&every, "%%%02X", b)
		}
	}
	forms := []string{secret, url.QueryEscape(secret), url.PathEscape(secret), url.UserPassword("", secret).String()[1:], every.String()}
	for _, encoded := range forms[1:] {
		forms = append(forms, percentEncoded().ReplaceAllStringFunc(encoded, strings.ToLower))
	}
	quoted := strconv.Quote(secret)
	forms = append(forms, quoted[1:len(quoted)-1])
	if text, err := json.Marshal(secret); err == nil {
		forms = append(forms, string(text[1:len(text)-1]))
	}
	forms = append(forms,
		strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(secret), // keyword form
		strings.NewReplacer(`\`, `\\`, `:`, `\:`).Replace(secret), // password file
		strings.ReplaceAll(secret, `'`, `''`),                     // SQL
	)
	return slices.DeleteFunc(forms, func(form string) bool { return len(form) < shortestSecret })
}

func percentEncoded() *regexp.Regexp { return regexp.MustCompile(`%[0-9A-F]{2}`) }

// secretsIn finds what may be a password in a connection string, also in one that cannot be parsed.
func secretsIn(dsn string) []string {
	found := []string{dsn}
	add := func(text string) {
		found = append(found, text)
		if decoded, err := url.PathUnescape(text); err == nil && decoded != text {
			found = append(found, decoded)
		}
	}
	if _, rest, ok := strings.Cut(dsn, "://"); ok {
		if at := strings.LastIndexByte(rest, '@'); at >= 0 {
			if _, password, ok := strings.Cut(rest[:at], ":"); ok {
				add(password)
			}
		}
		for _, match := range regexp.MustCompile(`(?i)[?&](?:ssl)?password=([^&]*)`).FindAllStringSubmatch(rest, -1) {
			add(match[1])
		}
		return found
	}
	// Quoted; up to the next blank; and up to the next keyword, for a blank that was not quoted.
	for _, pattern := range []string{`'((?:[^'\\]|\\.)*)'`, `(\S+)`, `(.*?)(?:\s+\w+\s*=|$)`} {
		for _, match := range regexp.MustCompile(`(?is)password\s*=\s*`+pattern).FindAllStringSubmatch(dsn, -1) {
			add(match[1])
			found = append(found, regexp.MustCompile(`(?s)\\(.)`).ReplaceAllString(match[1], "$1"))
		}
	}
	return found
}

// secretsInArgs finds the connection strings among the arguments of the program, wherever they stand, so that a message about a
// mistyped command does not show them.
func secretsInArgs(args []string) []string {
	looks := regexp.MustCompile(`(?is)://.*@|password\s*=`)
	var found []string
	for _, arg := range args {
		if !looks.MatchString(arg) {
			continue
		}
		found = append(found, secretsIn(arg)...)
		if _, value, ok := strings.Cut(arg, "="); ok && strings.HasPrefix(arg, "-") {
			found = append(found, secretsIn(value)...)
		}
	}
	return found
}
