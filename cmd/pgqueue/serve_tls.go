package main

import (
	"crypto/tls"
	"fmt"
	"os"
	"sync"
	"time"
)

// tls is what the flags say of TLS; nil for none.
func (f *serveFlags) tls() (*tls.Config, error) {
	if f.certificate == "" {
		return nil, nil
	}
	c := &certificate{file: f.certificate, key: f.key}
	if _, err := c.current(); err != nil {
		return nil, usage("--tls-cert, --tls-key: %w", err)
	}
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.current() },
	}, nil
}

// certificate is a certificate that is read again when its file changes: it outlives no renewal, whoever restarts what. It is safe for
// concurrent use.
type certificate struct {
	file, key string

	mu     sync.Mutex
	loaded *tls.Certificate
	of     time.Time // when the file that was loaded was written
}

// current is the certificate of the files, or the one before where the files cannot be used: a renewal writes one after the other.
func (c *certificate) current() (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	info, err := os.Stat(c.file)
	if err == nil && c.loaded != nil && info.ModTime().Equal(c.of) {
		return c.loaded, nil
	}
	if err == nil {
		var pair tls.Certificate
		if pair, err = tls.LoadX509KeyPair(c.file, c.key); err == nil {
			c.loaded, c.of = &pair, info.ModTime()
			return c.loaded, nil
		}
	}
	if c.loaded != nil {
		return c.loaded, nil
	}
	return nil, fmt.Errorf("load the certificate: %w", err)
}
