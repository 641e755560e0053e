package console

import (
	"net/http"
	"strings"
	"testing"

	"github.com/pgqueue/pgqueue/pgqueuetest"
)

func TestC136_BearerTokens(t *testing.T) {
	secret, other := strings.Repeat("s", 32), strings.Repeat("t", 32)
	authenticator, err := BearerTokens(Token{"ci", Operator, secret}, Token{"wall", Viewer, other})
	if err != nil {
		t.Fatal(err)
	}
	c := newConsole(t, pgqueuetest.New(t), func(config *Config) { config.Authenticator = authenticator })
	for name, test := range map[string]struct {
		path, authorization string
		status              int
	}{
		"operator":       {"/", "Bearer " + secret, http.StatusOK},
		"viewer":         {"/", "bearer " + other, http.StatusOK},
		"nobody":         {"/", "", http.StatusUnauthorized},
		"wrong":          {"/", "Bearer " + secret[1:] + "x", http.StatusUnauthorized},
		"a beginning":    {"/", "Bearer " + secret[1:], http.StatusUnauthorized},
		"empty":          {"/", "Bearer ", http.StatusUnauthorized},
		"another scheme": {"/", "Basic " + secret, http.StatusUnauthorized},
		"in the query":   {"/?token=" + secret + "&access_token=" + secret + "&authorization=Bearer+" + secret, "", http.StatusUnauthorized},
	} {
		r := c.as(0).request(http.MethodGet, test.path, nil)
		if test.authorization != "" {
			r.Header.Set("Authorization", test.authorization)
		}
		reply := c.send(r)
		if reply.status != test.status {
			t.Errorf("%s: status %d, want %d", name, reply.status, test.status)
		}
		if reply.status == http.StatusUnauthorized && !strings.HasPrefix(reply.header.Get("WWW-Authenticate"), "Bearer ") {
			t.Errorf("%s: %v", name, reply.header)
		}
	}
	for want, tokens := range map[string][]Token{
		"there are no tokens": {},
		"has no name":         {{"", Viewer, secret}},
		"must be viewer":      {{"a", 7, secret}},
		"must have 20 bytes":  {{"a", Viewer, "hunter2hunter2"}},
		"is another's, too":   {{"a", Viewer, secret}, {"b", Operator, secret}},
	} {
		if _, err := BearerTokens(tokens...); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), secret) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
