package pgqueue_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// Whoever makes the identity of arguments, Go or Postgres, comes to the same: here on payloads by hand.
func TestGoAndPostgresHaveOneCanonicalForm(t *testing.T) {
	t.Parallel()
	compareWithPostgres(t, []string{
		`{}`, `[]`, `null`, `true`, `0`, `""`, `{"b":1,"a":2}`, `{"bb":1,"a":2,"B":3,"é":4,"z":5}`, `{"a":1,"a":2,"b":{"a":1,"a":null}}`,
		`{"a" : [ 1 , 2 ], "":{}}`, `[1,1.0,1.00,1e0,1e2,1E+2,100,1.50e1,1.5e3,0.0e5,0e-5,-0,-0.0,-0e-3,12e-1,1e-7,0.1e-3,-12.340e+1,5e20]`,
		`[9007199254740992,9007199254740993,123456789012345678901234567890.123456789]`, `[1e400,-1.5e-400,0.00e2,10.0e-1]`,
		`"\u0041\u00e9\ud83d\ude00\u2028<>&/\/"`, `"<\u003c\u0001\u001f\u007f\b\f\n\r\t\"\\"`, `{"\u0061":1,"a":2}`, "\" \u00a0\u0301\"",
		`{"a":{"b":1}}`, `{"a.b":1}`, `[[[[[]]]]]`, `{"x":null}`, strings.Repeat("[", 200) + strings.Repeat("]", 200),
	})
}

// And on thousands that nobody wrote.
func TestGoAndPostgresHaveOneCanonicalFormOfAnything(t *testing.T) {
	t.Parallel()
	count := size(2_000, 50_000)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	source := rand.New(rand.NewPCG(seed, 1))
	payloads := make([]string, count)
	for i := range payloads {
		payloads[i] = randomJSON(source, 4)
	}
	compareWithPostgres(t, payloads)
}

func compareWithPostgres(t *testing.T, payloads []string) {
	t.Helper()
	members := []string{"a", "/b/0", "/a/b", "/~1x/a", "é"}
	db := pgqueuetest.New(t)
	rows, err := db.Pool.Query(testContext(t), `SELECT p::jsonb::text, pgqueue.args_fingerprint(p::jsonb), pgqueue.args_fingerprint(p::jsonb, $2)
		FROM unnest($1::text[]) WITH ORDINALITY AS u(p, ord) ORDER BY ord`, payloads, members)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	seen := map[string]bool{}
	for i := 0; rows.Next(); i++ {
		var text, whole, some string
		if err := rows.Scan(&text, &whole, &some); err != nil {
			t.Fatal(err)
		}
		got, err := pgqueue.CanonicalJSON(payloads[i])
		if err != nil || got != text {
			t.Errorf("%s\n here      %s (%v)\n Postgres  %s", payloads[i], got, err, text)
		}
		for want, named := range map[string][]string{whole: nil, some: members} {
			if got, err := pgqueue.ArgsIdentity(payloads[i], named); err != nil || got != want {
				t.Errorf("members %q of %s: %s (%v), in Postgres %s", named, payloads[i], got, err, want)
			}
		}
		seen[some] = true
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	if len(payloads) > 1000 && len(seen) < 50 {
		t.Errorf("only %d different picks: the members of this test are not in its payloads", len(seen))
	}
}

// randomJSON is a value with what makes trouble: few names, so that they meet, odd numbers, odd characters.
func randomJSON(source *rand.Rand, depth int) string {
	names := []string{`"a"`, `"b"`, `"\u0061"`, `"ab"`, `"/x"`, `"é"`, `""`, `"0"`}
	pick := source.IntN(7)
	if depth == 0 {
		pick = 2 + source.IntN(5)
	}
	var b strings.Builder
	switch pick {
	case 0:
		b.WriteByte('{')
		for i := range source.IntN(6) {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(names[source.IntN(len(names))] + ":" + randomJSON(source, depth-1))
		}
		b.WriteByte('}')
	case 1:
		b.WriteByte('[')
		for i := range source.IntN(4) {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(randomJSON(source, depth-1))
		}
		b.WriteByte(']')
	case 2:
		return []string{"null", "true", "false"}[source.IntN(3)]
	case 3:
		return randomString(source)
	default:
		return randomNumber(source)
	}
	return b.String()
}

func randomNumber(source *rand.Rand) string {
	var b strings.Builder
	if source.IntN(3) == 0 {
		b.WriteByte('-')
	}
	digits := func(n int, first string) {
		for i := range n {
			if from := "0123456789"; i == 0 {
				b.WriteByte(first[source.IntN(len(first))])
			} else {
				b.WriteByte(from[source.IntN(len(from))])
			}
		}
	}
	if source.IntN(4) == 0 {
		b.WriteByte('0')
	} else {
		digits(1+source.IntN(20), "123456789")
	}
	if source.IntN(2) == 0 {
		b.WriteByte('.')
		digits(1+source.IntN(6), "00012345")
	}
	if source.IntN(3) == 0 {
		b.WriteString([]string{"e", "E", "e+", "e-", "E-"}[source.IntN(5)])
		digits(1+source.IntN(2), "0123456789")
	}
	return b.String()
}

func randomString(source *rand.Rand) string {
	var b strings.Builder
	b.WriteByte('"')
	for range source.IntN(6) {
		r := rune(1 + source.IntN(0x250))
		if source.IntN(8) == 0 {
			r = rune(1 + source.IntN(utf8.MaxRune))
		}
		if r >= 0xD800 && r < 0xE000 {
			r = 'x'
		}
		switch {
		case r < ' ' || r == '"' || r == '\\' || source.IntN(3) == 0 && r < 0x10000:
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

func FuzzCanonicalJSON(f *testing.F) {
	f.Add(`{"b":[1,2.50e1,null],"a":{"x":"é"}}`)
	f.Fuzz(func(t *testing.T, text string) {
		if !json.Valid([]byte(text)) || len(text) > 1000 {
			return
		}
		once, err := pgqueue.CanonicalJSON(text)
		if err != nil || len(once) > 100_000 {
			return // an exponent that checkJSON refuses
		}
		if again, err := pgqueue.CanonicalJSON(once); err != nil || again != once {
			t.Errorf("%q becomes %q and then %q (%v)", text, once, again, err)
		}
	})
}
