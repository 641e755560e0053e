package console

import (
	"strings"
	"testing"
)

func TestParseUsers(t *testing.T) {
	hash := cheap(t, "correct horse")
	users, err := ParseUsers(strings.NewReader("# who\n\n  alice:operator:" + hash + "\nbob b@example.com:viewer:" + hash + "\r\n"))
	if err != nil || len(users) != 2 || users[0] != (User{"alice", Operator, hash}) || users[1] != (User{"bob b@example.com", Viewer, hash}) {
		t.Errorf("%v, %v", users, err)
	}
	for text, want := range map[string]string{
		"":                        "there are none",
		"# nobody":                "there are none",
		"alice:operator":          "line 1: must be name:role:hash",
		"alice:admin:" + hash:     `line 1: there is no role "admin"`,
		"\nalice:operator:secret": "line 2: user \"alice\": the password must be stored",
		":viewer:" + hash:         "must not be empty",
		"a:viewer:" + hash + "\na:viewer:" + hash:                                 `line 2: there are two users "a"`,
		"a:viewer:pbkdf2-sha256$1$c2FsdHNhbHQ$" + strings.Repeat("A", 43):         "iterations",
		"a:viewer:pbkdf2-sha256$999999999$c2FsdHNhbHQ$" + strings.Repeat("A", 43): "iterations",
		"a:viewer:pbkdf2-sha256$600000$c2Fs$" + strings.Repeat("A", 43):           "salt",
		"a:viewer:pbkdf2-sha256$600000$c2FsdHNhbHQ$c2VjcmV0":                      "key",
		"a:viewer:$2y$10$secretsecretsecret":                                      "must be stored",
		"a:viewer:" + hash + "\n" + strings.Repeat("x", 1<<17):                    "read the users",
	} {
		_, err := ParseUsers(strings.NewReader(text))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), strings.Split(hash, "$")[3]) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestHashPassword(t *testing.T) {
	one, err := HashPassword("correct horse")
	if err != nil {
		t.Fatal(err)
	}
	other, err := HashPassword("correct horse")
	if err != nil || one == other || strings.ContainsAny(one, ": \n") {
		t.Errorf("%q and %q, %v: the same salt, or not for a file", one, other, err)
	}
	hash, err := parseHash(one)
	if err != nil || hash.iterations < 600_000 || !hash.matches("correct horse") || hash.matches("correct horsf") || hash.matches("") {
		t.Errorf("%v, %v", hash, err)
	}
	for _, password := range []string{"", "short", strings.Repeat("x", maxPassword+1)} {
		if _, err := HashPassword(password); err == nil || password != "" && strings.Contains(err.Error(), password) {
			t.Errorf("%d bytes: %v", len(password), err)
		}
	}
}

func TestBasicAuthRefusesUsers(t *testing.T) {
	hash := cheap(t, "correct horse")
	for want, users := range map[string][]User{
		"there are no users":     {},
		"must not be empty":      {{"", Viewer, hash}},
		"nor hold colons":        {{"a:b", Viewer, hash}},
		"control characters":     {{"a\nb", Viewer, hash}},
		"two users":              {{"a", Viewer, hash}, {"a", Operator, hash}},
		"must be viewer":         {{"a", 0, hash}},
		`user "a": the password`: {{"a", Viewer, ""}},
	} {
		if _, err := BasicAuth(users...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", users, err, want)
		}
	}
}
