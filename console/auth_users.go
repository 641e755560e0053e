package console

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
)

// User is somebody with a password.
type User struct {
	// Name is what he signs in with, and what the audit log calls him. It holds no colon.
	Name string
	Role Role
	// PasswordHash is what [HashPassword] made of his password.
	PasswordHash string
}

// maxUsersFile bounds what ParseUsers reads.
const maxUsersFile = 1 << 20

// ParseUsers reads a file of users, one a line: name, role and password hash with colons between.
//
//	# who may look after the queues
//	alice:operator:pbkdf2-sha256$600000$…
//	bob:viewer:pbkdf2-sha256$600000$…
//
// Empty lines and those that begin with # are passed over. An error names the line, and quotes no hash. A file without users is an error.
func ParseUsers(r io.Reader) ([]User, error) {
	var users []User
	lines := bufio.NewScanner(io.LimitReader(r, maxUsersFile))
	number := 0
	for lines.Scan() {
		number++
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		parts := strings.SplitN(line, ":", 3)
		if len(parts) != 3 {
			return nil, fmt.Errorf("console: users, line %d: must be name:role:hash", number)
		}
		role, err := parseRole(parts[1])
		if err != nil {
			return nil, fmt.Errorf("console: users, line %d: %w", number, err)
		}
		users = append(users, User{Name: parts[0], Role: role, PasswordHash: parts[2]})
		if _, err := newUsers(users); err != nil { // whose fault is in this line: the others have passed
			return nil, fmt.Errorf("console: users, line %d: %w", number, err)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("console: read the users: %w", err)
	}
	if len(users) == 0 {
		return nil, errors.New("console: users: there are none")
	}
	return users, nil
}

// knownUser is a user whose hash was read.
type knownUser struct {
	identity Identity
	hash     passwordHash
}

// newUsers checks users, and puts them by name.
func newUsers(users []User) (map[string]*knownUser, error) {
	known := make(map[string]*knownUser, len(users))
	for _, user := range users {
		if user.Name == "" || strings.ContainsFunc(user.Name, func(c rune) bool { return c == ':' || c < ' ' || c == 0x7f }) {
			return nil, fmt.Errorf("the name %q must not be empty, nor hold colons or control characters", user.Name)
		}
		if known[user.Name] != nil {
			return nil, fmt.Errorf("there are two users %q", user.Name)
		}
		if user.Role != Viewer && user.Role != Operator {
			return nil, fmt.Errorf("the role of %q must be viewer or operator", user.Name)
		}
		hash, err := parseHash(user.PasswordHash)
		if err != nil {
			return nil, fmt.Errorf("user %q: %w", user.Name, err)
		}
		known[user.Name] = &knownUser{identity: Identity{Name: user.Name, Role: user.Role}, hash: hash}
	}
	return known, nil
}
