package console

import (
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// cheap is a hash with the fewest iterations that are taken, so that tests are quick.
func cheap(t testing.TB, password string) string {
	t.Helper()
	hash, err := hashPassword(password, minIterations)
	if err != nil {
		t.Fatal(err)
	}
	return hash
}

// quick is BasicAuth, whose checks take no time.
func quick(t testing.TB, users ...User) Authenticator {
	t.Helper()
	hash := cheap(t, users[0].PasswordHash)
	named := slices.Clone(users)
	for i := range named {
		named[i].PasswordHash = hash
	}
	authenticator, err := BasicAuth(named...)
	if err != nil {
		t.Fatal(err)
	}
	a := authenticator.(*basicAuth)
	a.nobody.iterations = 1
	for _, user := range users {
		text, err := hashPassword(user.PasswordHash, 1)
		if err != nil {
			t.Fatal(err)
		}
		parts := strings.Split(text, "$")
		known := a.users[user.Name]
		known.hash.iterations = 1
		if known.hash.salt, err = base64.RawStdEncoding.DecodeString(parts[2]); err != nil {
			t.Fatal(err)
		}
		if known.hash.key, err = base64.RawStdEncoding.DecodeString(parts[3]); err != nil {
			t.Fatal(err)
		}
	}
	return a
}

func basic(t testing.TB, authenticator Authenticator, address, name, password string) error {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.RemoteAddr = address
	r.SetBasicAuth(name, password)
	identity, err := authenticator.Authenticate(r)
	if err == nil && identity.Name != name {
		t.Errorf("%s became %s", name, identity.Name)
	}
	return err
}

func TestC136_BasicAuth(t *testing.T) {
	authenticator := quick(t, User{"alice", Operator, "correct horse"}, User{"bob", Viewer, "battery staple"})
	c := newConsole(t, pgqueuetest.New(t), func(config *Config) { config.Authenticator = authenticator })
	ask := func(path string, with func(*http.Request)) *reply {
		r := c.as(0).request(http.MethodGet, path, nil)
		with(r)
		return c.send(r)
	}
	for range 3 { // the first time, and when it is known
		if reply := ask("/", func(r *http.Request) { r.SetBasicAuth("alice", "correct horse") }).want(t, http.StatusOK); !strings.Contains(reply.body, "alice") {
			t.Error("the page does not say who is signed in")
		}
		ask("/", func(r *http.Request) { r.SetBasicAuth("bob", "battery staple") }).want(t, http.StatusOK)
	}
	for name, with := range map[string]func(*http.Request){
		"nobody":          func(*http.Request) {},
		"wrong password":  func(r *http.Request) { r.SetBasicAuth("alice", "wrong") },
		"somebody else's": func(r *http.Request) { r.SetBasicAuth("bob", "correct horse") },
		"unknown":         func(r *http.Request) { r.SetBasicAuth("mallory", "correct horse") },
		"empty":           func(r *http.Request) { r.SetBasicAuth("", "") },
		"the hash": func(r *http.Request) {
			r.SetBasicAuth("alice", authenticator.(*basicAuth).users["alice"].identity.Name)
		},
		"shifted":              func(r *http.Request) { r.SetBasicAuth("alicec", "orrect horse") },
		"in the query":         func(r *http.Request) { r.URL.RawQuery = "user=alice&password=correct+horse&authorization=Basic" },
		"a bearer":             func(r *http.Request) { r.Header.Set("Authorization", "Bearer correct horse") },
		"too long a password":  func(r *http.Request) { r.SetBasicAuth("alice", strings.Repeat("x", 5000)) },
		"with something added": func(r *http.Request) { r.SetBasicAuth("alice", "correct horse ") },
	} {
		authenticator.(*basicAuth).fails = newThrottle()
		reply := ask("/", with)
		if reply.status != http.StatusUnauthorized || !strings.HasPrefix(reply.header.Get("WWW-Authenticate"), "Basic ") {
			t.Errorf("%s: status %d, %v", name, reply.status, reply.header)
		}
	}
}

func TestC136_PasswordsAreThrottled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		authenticator := quick(t, User{"alice", Operator, "correct horse"}, User{"carol", Operator, "correct horse"})
		if err := basic(t, authenticator, "192.0.2.9:1", "carol", "correct horse"); err != nil {
			t.Fatal(err)
		}
		for range attemptsAtOnce {
			if err := basic(t, authenticator, "192.0.2.1:1000", "alice", "guess"); err != ErrUnauthenticated {
				t.Fatal(err)
			}
		}
		if err := basic(t, authenticator, "192.0.2.1:1001", "alice", "correct horse"); err != ErrThrottled {
			t.Errorf("the sixth attempt: %v", err)
		}
		if err := basic(t, authenticator, "192.0.2.2:1", "alice", "correct horse"); err != nil {
			t.Errorf("from another address: %v", err)
		}
		for range 2 * addressAtOnce { // what is known is not counted
			if err := basic(t, authenticator, "192.0.2.1:1", "carol", "correct horse"); err != nil {
				t.Fatal(err)
			}
		}
		<-time.After(attemptEvery)
		if err := basic(t, authenticator, "192.0.2.1:1", "alice", "guess"); err != ErrUnauthenticated {
			t.Errorf("after a while: %v", err)
		}
		if err := basic(t, authenticator, "192.0.2.1:1", "alice", "guess"); err != ErrThrottled {
			t.Errorf("two after a while: %v", err)
		}
		<-time.After(time.Hour)
		for n := range 2 * addressAtOnce { // many names from one network
			want := ErrUnauthenticated
			if n >= addressAtOnce {
				want = ErrThrottled
			}
			if err := basic(t, authenticator, "[2001:db8::"+string(rune('a'+n%6))+"]:1", "name"+string(rune('a'+n)), "guess"); err != want {
				t.Errorf("name %d: %v, want %v", n, err, want)
			}
		}
	})
}

func TestTheThrottleIsBounded(t *testing.T) {
	throttle := newThrottle()
	now := time.Now()
	throttle.now = func() time.Time { return now }
	for n := range 2 * maxThrottleKeys {
		now = now.Add(time.Microsecond)
		throttle.allow(time.Unix(int64(n), 0).String(), "alice")
		if len(throttle.buckets) > maxThrottleKeys+2 {
			t.Fatalf("%d buckets", len(throttle.buckets))
		}
	}
}

// Passwords are checked a few at a time: a flood of them costs no more than that.
func TestPasswordsAreCheckedAFewAtATime(t *testing.T) {
	authenticator := quick(t, User{"alice", Operator, "correct horse"})
	a := authenticator.(*basicAuth)
	for range checksAtOnce {
		a.slots <- struct{}{}
	}
	results := make(chan error, 3)
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() { results <- basic(t, authenticator, "192.0.2.1:1", "alice", "correct horse") })
	}
	select {
	case err := <-results:
		t.Errorf("a check did not wait for its turn: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	for range checksAtOnce {
		<-a.slots
	}
	all.Wait()
	for range 3 {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
}
