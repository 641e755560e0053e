package pgqueue

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/pgqueue/pgqueue/pgqueue/internal/jobstore"
)

const (
	maxUniqueArgs = 32
	shortestSpan  = time.Millisecond // below it a rule would hardly ever apply
)

// liveRevision is the revision of jobs that are unique while they are live: all inputs of such a key are the same.
const liveRevision = "unique"

// fillUnique validates the rule of a job, if it has one, and makes its identity from the arguments as they are before they are
// encoded. How identities are spelt stands in the function enqueue_unique of the schema as well.
func (s *enqueueSettings) fillUnique(in *jobstore.Input, codecs *codecs) *ValidationError {
	if s.rules == (rules{}) {
		s.rules = s.rulesOfType
	}
	switch s.rules {
	case rules{}:
		return nil
	case rules{idempotency: s.idempotency}:
		return s.fillIdempotency(in)
	case rules{unique: s.unique}:
		return s.fillUniqueArgs(in, codecs)
	case rules{throttle: s.throttle}:
		return s.fillThrottle(in)
	case rules{debounce: s.debounce}:
		return s.fillDebounce(in)
	}
	return invalid("unique", "is asked for in two ways: a job has one of WithIdempotencyKey, WithUnique, WithThrottle and WithDebounce")
}

func (s *enqueueSettings) fillIdempotency(in *jobstore.Input) *ValidationError {
	if err := checkText("idempotency_key", s.idempotency.key, maxKeyBytes); err != nil {
		return err
	}
	if err := checkSpan("idempotency_key.keep", s.idempotency.keep); err != nil {
		return err
	}
	in.Unique = &jobstore.Unique{Policy: jobstore.UniqueKeep, Identity: "key:" + s.idempotency.key, Span: s.idempotency.keep}
	return nil
}

func (s *enqueueSettings) fillUniqueArgs(in *jobstore.Input, codecs *codecs) *ValidationError {
	u := s.unique
	pointers, err := u.pointers()
	if err != nil {
		return err
	}
	identity := "kind"
	if !u.IgnoreArgs {
		if identity, err = argsIdentity(in.Payload, pointers, codecs.fingerprint); err != nil {
			return err
		}
	}
	switch {
	case u.Keep != 0 && u.Period != 0:
		return invalid("unique.period", "cannot be combined with keep")
	case u.Keep != 0:
		in.Unique = &jobstore.Unique{Policy: jobstore.UniqueKeep, Identity: identity, Span: u.Keep}
		return checkSpan("unique.keep", u.Keep)
	case u.Period != 0:
		if err := checkSpan("unique.period", u.Period); err != nil {
			return err
		}
		in.Unique = slotRule(u.Period, identity)
		return nil
	}
	if s.key != nil {
		return invalid("unique", "cannot be combined with a key unless it has keep or period: the identity is the key then")
	}
	key, revision := "unique:"+identity, liveRevision
	in.Key, in.Revision = &key, &revision
	in.Unique = &jobstore.Unique{Policy: jobstore.UniqueLive}
	return nil
}

func (s *enqueueSettings) fillThrottle(in *jobstore.Input) *ValidationError {
	if err := checkSpan("throttle", *s.throttle); err != nil {
		return err
	}
	identity := "kind"
	if s.key != nil {
		identity = "key:" + *s.key
	}
	in.Unique = slotRule(*s.throttle, identity)
	return nil
}

// slotRule is the rule of a slot. The length stands in the identity, so that a period that was changed begins anew.
func slotRule(period time.Duration, identity string) *jobstore.Unique {
	return &jobstore.Unique{
		Policy: jobstore.UniqueSlot, Identity: "slot:" + strconv.FormatInt(period.Microseconds(), 10) + ":" + identity, Span: period,
	}
}

func (s *enqueueSettings) fillDebounce(in *jobstore.Input) *ValidationError {
	d := s.debounce
	if err := checkSpan("debounce.delay", d.delay); err != nil {
		return err
	}
	if err := checkSpan("debounce.max", d.longest); err != nil {
		return err
	}
	switch {
	case d.longest < d.delay:
		return invalid("debounce.max", fmt.Sprintf("must not be shorter than the delay of %s, is %s", d.delay, d.longest))
	case s.key == nil:
		return invalid("debounce", "needs a key")
	case s.revision != nil:
		return invalid("debounce", "cannot be combined with a revision")
	case in.RunAt != nil || in.Delay != 0:
		return invalid("debounce", "cannot be combined with run_at or delay")
	}
	in.Delay = d.delay
	in.Unique = &jobstore.Unique{Policy: jobstore.UniqueDebounce, Span: d.longest}
	return nil
}

// checkSpan checks one of the lengths of time.
func checkSpan(field string, span time.Duration) *ValidationError {
	if span < shortestSpan || span > maxDelay {
		return invalid(field, fmt.Sprintf("must be from %s to %s, is %s", shortestSpan, maxDelay, span))
	}
	return nil
}

// pointers are the members that count, each as a JSON pointer in one spelling; nil where the whole payload does.
func (u *Unique) pointers() ([]string, *ValidationError) {
	if u.Args == nil {
		return nil, nil
	}
	if u.IgnoreArgs {
		return nil, invalid("unique.args", "cannot be combined with ignore_args")
	}
	if len(u.Args) == 0 || len(u.Args) > maxUniqueArgs {
		return nil, invalid("unique.args", fmt.Sprintf("must name from 1 to %d members, or be nil, are %d", maxUniqueArgs, len(u.Args)))
	}
	pointers := make([]string, len(u.Args))
	for i, name := range u.Args {
		field := fmt.Sprintf("unique.args[%d]", i)
		if err := checkText(field, name, maxTagBytes); err != nil {
			return nil, err
		}
		pointer := name
		if name[0] != '/' {
			pointer = "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
		}
		for _, step := range strings.Split(pointer[1:], "/") {
			for at, c := range step {
				if c == '~' && !strings.HasPrefix(step[at:], "~0") && !strings.HasPrefix(step[at:], "~1") {
					return nil, invalid(field, "is a JSON pointer with a ~ that is neither ~0 nor ~1")
				}
			}
			if unplainNumber(step) {
				return nil, invalid(field, "holds a number that is not written plainly")
			}
		}
		pointers[i] = pointer
	}
	return pointers, nil
}

// unplainNumber tells whether Postgres would take a step for an index that it does not look like: "01", "+1", or "-1", which it
// counts from the end.
func unplainNumber(step string) bool {
	digits := strings.TrimLeft(step, " \t\n\v\f\r")
	if digits != "" && (digits[0] == '-' || digits[0] == '+') {
		digits = digits[1:]
	}
	if digits == "" || strings.Trim(digits, "0123456789") != "" {
		return false
	}
	return digits != step || len(step) > 1 && step[0] == '0'
}

// argsIdentity is the function args_fingerprint of the schema, unless fingerprint, that of a codec which keeps arguments secret, makes
// the hash.
func argsIdentity(payload []byte, pointers []string, fingerprint func([]byte) []byte) (string, *ValidationError) {
	name := "args:"
	value, err := parseJSON(payload)
	if err != nil {
		return "", &ValidationError{Field: "payload", Message: "is not JSON: " + err.Error(), cause: err}
	}
	if pointers != nil {
		name, value = "members:", value.pick(pointers)
	}
	text := value.String()
	hash, refused := secretHash(fingerprint, text)
	if refused != nil {
		return "", refused
	}
	if hash == nil {
		sum := sha256.Sum256([]byte(text))
		hash = sum[:]
	}
	return name + hex.EncodeToString(hash), nil
}

// secretHash asks a codec for its hash; nil where none offers one. A wrong one would make all arguments the same, so it is refused.
func secretHash(fingerprint func([]byte) []byte, text string) (hash []byte, refused *ValidationError) {
	defer func() {
		if cause := recover(); cause != nil {
			hash, refused = nil, invalid("unique", fmt.Sprintf("cannot be decided: the codec's fingerprint panicked: %v", cause))
		}
	}()
	hash = fingerprint([]byte(text))
	if hash != nil && len(hash) != sha256.Size {
		return nil, invalid("unique", fmt.Sprintf("cannot be decided: the codec's fingerprint has %d bytes where %d are needed", len(hash), sha256.Size))
	}
	return hash, nil
}
