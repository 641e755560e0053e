package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// serving is a console that is served by a command of its own.
type serving struct {
	t      *testing.T
	url    string
	stop   func() result // as a signal does
	err    *lockedBuffer
	client *http.Client
}

// serve starts pgqueue serve and waits until it says where.
func (c *cli) serve(t *testing.T, args ...string) *serving {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var out, err lockedBuffer
	ended := make(chan int, 1)
	args = append([]string{"serve", "--json", "--listen", "127.0.0.1:0"}, args...)
	go func() { ended <- run(ctx, args, c.streams(&out, &err), c.lookup) }()
	s := &serving{t: t, err: &err, client: &http.Client{Timeout: patience, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
	var stopped *result
	s.stop = func() result {
		if stopped == nil {
			cancel()
			stopped = &result{t: t, args: args, code: <-ended, out: out.String(), err: err.String()}
		}
		return *stopped
	}
	t.Cleanup(func() { s.stop() })
	eventually(t, "the console says where it is", func() bool {
		select {
		case code := <-ended:
			t.Fatalf("serve ended with %d: %s%s", code, out.String(), err.String())
		default:
		}
		return strings.HasSuffix(out.String(), "\n")
	})
	s.url = decoded[struct{ URL string }](result{t: t, args: args, out: out.String(), err: err.String()}).URL
	return s
}

// get asks and returns the status and the page.
func (s *serving) get(path, name, password string) (int, string) {
	s.t.Helper()
	base, err := url.Parse(s.url)
	if err != nil {
		s.t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, base.Scheme+"://"+base.Host+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	if name != "" {
		request.SetBasicAuth(name, password)
	}
	answer, err := s.client.Do(request)
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close()
	page, err := io.ReadAll(answer.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return answer.StatusCode, string(page)
}

// Who is in the file of users gets in, nobody else does, and a signal is no failure.
func TestServeKnowsItsUsers(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	c := newCLI(t, db)
	alice := newCLI(t, nil).reading("correct horse\n").run("serve", "user", "alice", "--role", "operator").want(exitOK).out
	bob := newCLI(t, nil).reading("battery staple\r\n").run("serve", "user", "bob").want(exitOK).out
	if strings.Contains(alice, "correct") || !strings.HasPrefix(alice, "alice:operator:pbkdf2-sha256$") || !strings.HasPrefix(bob, "bob:viewer:") {
		t.Fatalf("%s%s", alice, bob)
	}
	users := written(t, "users", "# who may\n"+alice+bob)
	s := c.serve(t, "--users", users, "--prefix", "/ops/queues")
	if s.url[len(s.url)-len("/ops/queues/"):] != "/ops/queues/" {
		t.Errorf("%s", s.url)
	}
	for _, test := range []struct {
		path, name, password string
		status               int
	}{
		{"/ops/queues/", "", "", http.StatusUnauthorized},
		{"/ops/queues/", "alice", "wrong horse", http.StatusUnauthorized},
		{"/ops/queues/", "carol", "correct horse", http.StatusUnauthorized},
		{"/ops/queues/", "alice", "correct horse", http.StatusOK},
		{"/ops/queues/", "bob", "battery staple", http.StatusOK},
		{"/", "", "", http.StatusFound},
		{"/healthz", "", "", http.StatusOK},
		{"/elsewhere", "alice", "correct horse", http.StatusNotFound},
	} {
		if status, page := s.get(test.path, test.name, test.password); status != test.status {
			t.Errorf("%s as %q: %d, want %d: %.300s", test.path, test.name, status, test.status, page)
		}
	}
	if r := s.stop().want(exitOK); strings.Contains(r.out+r.err, "correct horse") || strings.Contains(r.out+r.err, "battery staple") {
		t.Errorf("a password is logged: %s%s", r.out, r.err)
	}
}

// Read-only means that operators only read, too; without users everybody reads.
func TestServeReadOnly(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	c := newCLI(t, db)
	c.run("enqueue", "greet", "--payload", `{"ssn": "MARK"}`).want(exitOK)
	line := newCLI(t, nil).reading("correct horse\n").run("serve", "user", "alice", "--role", "operator").want(exitOK).out
	s := c.serve(t, "--users", written(t, "users", line), "--read-only")
	if status, _ := s.get("/jobs/1/confirm/cancel", "alice", "correct horse"); status != http.StatusForbidden {
		t.Errorf("an operator may act: %d", status)
	}
	acting := c.serve(t, "--users", written(t, "users", line))
	if status, page := acting.get("/jobs/1/confirm/cancel", "alice", "correct horse"); status != http.StatusOK {
		t.Errorf("an operator may not act: %d: %.300s", status, page)
	}
	open := c.serve(t, "--read-only")
	if status, page := open.get("/jobs/1", "", ""); status != http.StatusOK || !strings.Contains(page, "MARK") {
		t.Errorf("nobody may read: %d: %.300s", status, page)
	}
	if status, _ := open.get("/jobs/1/confirm/cancel", "", ""); status != http.StatusForbidden {
		t.Errorf("everybody may act: %d", status)
	}
	hidden := c.serve(t, "--read-only", "--hide", "payload,metadata")
	if status, page := hidden.get("/jobs/1", "", ""); status != http.StatusOK || strings.Contains(page, "MARK") || !strings.Contains(page, "(hidden)") {
		t.Errorf("the payload is shown: %d", status)
	}
}

// It is closed unless somebody says otherwise: to strangers, to other machines without TLS, to other hosts' names.
func TestServeIsClosedByDefault(t *testing.T) {
	t.Parallel()
	c := newCLI(t, pgqueuetest.New(t))
	users := written(t, "users", newCLI(t, nil).reading("correct horse\n").run("serve", "user", "alice").want(exitOK).out)
	for says, args := range map[string][]string{
		"nobody is known":       nil,
		"other machines":        {"--users", users, "--listen", ":0"},
		"--tls-cert":            {"--read-only", "--listen", "0.0.0.0:0"},
		"--allowed-host":        {"--users", users, "--listen", ":0", "--behind-proxy"},
		"ADDRESS:PORT":          {"--read-only", "--listen", "8080"},
		"line 1":                {"--users", written(t, "users", "alice:operator:plain password\n")},
		"no such file":          {"--users", filepath.Join(t.TempDir(), "nothing")},
		"there is no field":     {"--read-only", "--hide", "everything"},
		"Prefix":                {"--read-only", "--prefix", "queues/"},
		"must be positive":      {"--read-only", "--timeout", "0"},
		"load the certificate":  {"--read-only", "--tls-cert", users, "--tls-key", users},
		"tls-key":               {"--read-only", "--tls-cert", users},
		"AllowedHosts":          {"--read-only", "--allowed-host", "http://queues.example.com"},
		"unknown command":       {"everything"},
		"must be viewer":        {"user", "alice", "--role", "root"},
		"input, which is empty": {"user", "alice"},
	} {
		r := c.run(append([]string{"serve"}, args...)...).want(exitUsage).says(says)
		if strings.Contains(r.err, "plain password") {
			t.Errorf("a line of the file is shown: %s", r.err)
		}
	}
	c.run("serve", "--read-only", "--listen", "127.0.0.1:99999").want(exitUsage).says("cannot listen")
	c.reading("correct horse\n").run("serve", "user", "a:b").want(exitUsage).says("colon")
	c.reading("short\n").run("serve", "user", "alice").want(exitUsage).says("8")
	for _, name := range []string{"a:b", "", "#alice", "a\nb"} {
		c.reading("correct horse\n").run("serve", "user", name).want(exitUsage)
	}
	s := c.serve(t, "--read-only", "--allowed-host", "queues.example.com")
	if !strings.HasPrefix(s.url, "http://queues.example.com:") {
		t.Errorf("%s", s.url)
	}
	busy := c.serve(t, "--read-only")
	address, err := url.Parse(busy.url)
	if err != nil {
		t.Fatal(err)
	}
	c.run("serve", "--read-only", "--listen", address.Host).want(exitFailed).says("cannot listen", "--listen")
	newCLI(t, nil).with("DATABASE_URL", "postgres://127.0.0.1:1/app").run("serve", "--read-only").want(exitConnect)
}

// A request for another host's name is refused: DNS rebinding.
func TestServeChecksTheHost(t *testing.T) {
	t.Parallel()
	s := newCLI(t, pgqueuetest.New(t)).serve(t, "--read-only")
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Host = "evil.example.com"
	answer, err := s.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusForbidden && answer.StatusCode != http.StatusMisdirectedRequest {
		t.Errorf("%d", answer.StatusCode)
	}
}

// certified writes a certificate for 127.0.0.1 with a serial number.
func certified(t *testing.T, cert, key string, serial int64) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "queues.example.com"}, DNSNames: []string{"localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	for path, block := range map[string]*pem.Block{key: {Type: "PRIVATE KEY", Bytes: raw}, cert: {Type: "CERTIFICATE", Bytes: der}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	written := time.Unix(1_700_000_000+serial, 0) // two in one tick of the file system's clock must differ
	if err := os.Chtimes(cert, written, written); err != nil {
		t.Fatal(err)
	}
}

// With TLS, and with a renewed certificate without a restart; a half-written one changes nothing.
func TestServeWithTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	certified(t, cert, key, 1)
	s := newCLI(t, pgqueuetest.New(t)).serve(t, "--read-only", "--tls-cert", cert, "--tls-key", key)
	serial := func() string {
		t.Helper()
		s.client.Transport = &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // a certificate of the test's own
		answer, err := s.client.Get(s.url)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			t.Errorf("%d", answer.StatusCode)
		}
		return fmt.Sprint(answer.TLS.PeerCertificates[0].SerialNumber)
	}
	if !strings.HasPrefix(s.url, "https://127.0.0.1:") || serial() != "1" {
		t.Errorf("%s", s.url)
	}
	if err := os.WriteFile(cert, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := serial(); got != "1" {
		t.Errorf("serial %s", got)
	}
	certified(t, cert, key, 2)
	if got := serial(); got != "2" {
		t.Errorf("serial %s", got)
	}
}
