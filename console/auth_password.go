package console

import (
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// How passwords are stored: pbkdf2-sha256$<iterations>$<salt>$<key>, the last two in base64 without padding.
const (
	hashName       = "pbkdf2-sha256"
	hashIterations = 600_000
	hashSalt       = 16 // bytes
	hashKey        = 32
	// A hash with fewer iterations is refused, and so is one whose check would take minutes.
	minIterations = 100_000
	maxIterations = 10_000_000
	minPassword   = 8 // bytes
	maxPassword   = 1024
)

// HashPassword makes the form in which a password is stored in a file of users: PBKDF2 with HMAC-SHA-256, 600,000 iterations and a
// random salt. A password has from 8 to 1,024 bytes.
func HashPassword(password string) (string, error) {
	if len(password) < minPassword || len(password) > maxPassword {
		return "", fmt.Errorf("console: a password must have from %d to %d bytes", minPassword, maxPassword)
	}
	return hashPassword(password, hashIterations)
}

func hashPassword(password string, iterations int) (string, error) {
	salt := make([]byte, hashSalt)
	_, _ = rand.Read(salt) // never fails, see crypto/rand
	key, err := pbkdf2.Key(sha256.New, password, salt, iterations, hashKey)
	if err != nil {
		return "", fmt.Errorf("console: hash the password: %w", err)
	}
	encode := base64.RawStdEncoding.EncodeToString
	return strings.Join([]string{hashName, strconv.Itoa(iterations), encode(salt), encode(key)}, "$"), nil
}

// passwordHash is a stored password.
type passwordHash struct {
	iterations int
	salt, key  []byte
}

// parseHash reads what HashPassword wrote. Its errors quote nothing of it.
func parseHash(text string) (passwordHash, error) {
	parts := strings.Split(text, "$")
	if len(parts) != 4 || parts[0] != hashName {
		return passwordHash{}, errors.New("the password must be stored as `pgqueue` hashes it: " + hashName + "$…")
	}
	iterations, err := strconv.Atoi(parts[1])
	if err != nil || iterations < minIterations || iterations > maxIterations {
		return passwordHash{}, fmt.Errorf("the hash must have from %d to %d iterations", minIterations, maxIterations)
	}
	salt, err := base64.RawStdEncoding.DecodeString(parts[2])
	if err != nil || len(salt) < 8 {
		return passwordHash{}, errors.New("the salt of the hash is damaged")
	}
	key, err := base64.RawStdEncoding.DecodeString(parts[3])
	if err != nil || len(key) != hashKey {
		return passwordHash{}, errors.New("the key of the hash is damaged")
	}
	return passwordHash{iterations: iterations, salt: salt, key: key}, nil
}

// matches tells whether a password is the stored one, in a time that says nothing about it.
func (h passwordHash) matches(password string) bool {
	if len(password) > maxPassword {
		return false
	}
	key, err := pbkdf2.Key(sha256.New, password, h.salt, h.iterations, len(h.key))
	return err == nil && subtle.ConstantTimeCompare(key, h.key) == 1
}
