package main

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// errEmpty refuses a flag that is given and empty.
var errEmpty = errors.New("must not be empty")

// givenValue is the value of a flag that refuses to be empty. To be given and empty never means "not given": in a script
// --queue "$QUEUE" and --database-url "$URL" are written by somebody who means one queue and one database, also where the variable
// turns out to be unset, and without the flag the command would act on all queues or on another database. No flag of this program has a
// use for an empty text, so there is no exception. In a list no part may be empty either.
type givenValue struct{ pflag.Value }

func (v givenValue) Set(text string) error {
	parts := []string{text}
	if v.Type() == "stringSlice" {
		parts = strings.Split(text, ",")
	}
	for _, part := range parts {
		if part == "" {
			return errEmpty
		}
	}
	return v.Value.Set(text)
}

// refuseEmpty makes every flag of a command refuse to be empty. It also takes defaults that say nothing out of the help.
func refuseEmpty(command *cobra.Command) {
	guard := func(flag *pflag.Flag) {
		if _, done := flag.Value.(givenValue); done || flag.Value.Type() == "bool" {
			return
		}
		flag.Value = givenValue{flag.Value}
		if flag.DefValue == "[]" || flag.DefValue == "0s" {
			flag.DefValue = ""
		}
	}
	command.Flags().VisitAll(guard)
	command.PersistentFlags().VisitAll(guard)
}

// emptyArgument refuses an argument that is empty, for the same reason as a flag.
func emptyArgument(command *cobra.Command, args []string) error {
	at := slices.Index(args, "")
	if at < 0 {
		return nil
	}
	name := "an argument"
	if words := strings.Fields(command.Use)[1:]; len(words) > 0 {
		word := strings.Trim(words[min(at, len(words)-1)], "[].…")
		if regexp.MustCompile(`^[A-Z]+$`).MatchString(word) {
			name = word
		}
	}
	return usage("%s must not be empty", name)
}

// flagProblem says what is wrong with the value of a flag, in words of ours.
func flagProblem(invalid *pflag.InvalidValueError) error {
	flag, cause := invalid.GetFlag(), errors.Unwrap(invalid)
	if errors.Is(cause, errEmpty) {
		return usage("--%s must not be empty", flag.Name)
	}
	want := "cannot be used"
	if cause != nil {
		want = cause.Error()
	}
	kind := flag.Value.Type()
	switch {
	case errors.Is(cause, strconv.ErrRange):
		want = "is beyond all bounds"
	case strings.HasPrefix(kind, "int"):
		want = "must be a whole number"
	case strings.HasPrefix(kind, "uint"):
		want = "must be a whole number that is not negative"
	case kind == "bool":
		want = "is true or false"
	case kind == "duration" && strings.HasPrefix(want, "time:"):
		want = "must be a duration such as 500ms, 90s, 10m or 2h"
	}
	return usage("--%s %s, not %q", flag.Name, want, visible(invalid.GetValue()))
}

// inOurWords says what cobra says about flags that belong together, or do not.
func inOurWords(err error) error {
	if err == nil {
		return nil
	}
	for _, known := range []struct{ pattern, say string }{
		{`^if any flags in the group \[.*\] are set none of the others can be; \[(.*)\] were all set$`, "%s exclude each other"},
		{`^if any flags in the group \[.*\] are set they must all be set; missing \[(.*)\]$`, "%s must be given too: it belongs to what is given"},
		{`^required flag\(s\) (.*) not set$`, "%s must be given"},
	} {
		if match := regexp.MustCompile(known.pattern).FindStringSubmatch(err.Error()); match != nil {
			names := strings.FieldsFunc(match[1], func(r rune) bool { return strings.ContainsRune(` ,"`, r) })
			for n := range names {
				names[n] = "--" + names[n]
			}
			return usage("%s", fmt.Sprintf(known.say, strings.Join(names, " and ")))
		}
	}
	return err
}
