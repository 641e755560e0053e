package runner

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"unicode/utf8"
)

const (
	maxCode    = 64
	maxMessage = 2048
)

// failureOf describes an error for storage. defaultCode is used where the error has none of its own.
func failureOf(err error, defaultCode string, storeText bool) *Failure {
	f := &Failure{Code: defaultCode}
	var c *coded
	if errors.As(err, &c) && c.code != "" {
		f.Code = c.code
	}
	var s *safe
	switch {
	case storeText:
		f.Message = textOf(err)
	case errors.As(err, &s):
		f.Message = textOf(s)
	default:
		f.Message = rootType(err)
	}
	return f.clean()
}

// clean makes both texts valid and bounded.
func (f *Failure) clean() *Failure {
	f.Code = cleanText(f.Code, maxCode)
	if f.Code == "" {
		f.Code = CodeError
	}
	f.Message, f.Text = cleanText(f.Message, maxMessage), cleanText(f.Text, maxMessage)
	return f
}

// cleanText returns at most limit bytes of s as valid UTF-8 without NUL.
func cleanText(s string, limit int) string {
	if len(s) > 2*limit { // do not scan a megabyte to keep a kilobyte
		s = s[:2*limit]
	}
	s = strings.ToValidUTF8(s, "\uFFFD")
	if strings.IndexByte(s, 0) >= 0 {
		s = strings.ReplaceAll(s, "\x00", "\uFFFD")
	}
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}

// textOf calls Error, which is the application's code and may panic.
func textOf(err error) (text string) {
	defer func() {
		if v := recover(); v != nil {
			text = fmt.Sprintf("(%T, whose Error method panicked)", err)
		}
	}()
	return err.Error()
}

// rootType names the Go type that tells most about err: the innermost one of its chain that is not a mere wrapper.
func rootType(err error) string {
	name := typeName(err)
	for range 100 { // a cycle must not hang the runner
		var inner error
		switch e := err.(type) {
		case interface{ Unwrap() error }:
			inner = e.Unwrap()
		case interface{ Unwrap() []error }:
			if all := e.Unwrap(); len(all) > 0 {
				inner = all[0]
			}
		}
		if inner == nil {
			break
		}
		err = inner
		if t := typeName(err); t != "*errors.errorString" || isWrapper(name) {
			name = t
		}
	}
	return name
}

// isWrapper says whether a type tells nothing about an error but that it holds another.
func isWrapper(name string) bool {
	switch name {
	case "*fmt.wrapError", "*fmt.wrapErrors", "*errors.joinError", "*runner.decided", "*runner.coded", "*runner.safe":
		return true
	}
	return false
}

func typeName(v any) string {
	if v == nil {
		return "nil"
	}
	return reflect.TypeOf(v).String()
}
