package pgqueue

// CanonicalJSON, for the comparison with Postgres.
func CanonicalJSON(text string) (string, error) { return canonicalJSON([]byte(text)) }

// ArgsIdentity is the identity of a payload, or of the members of it that are named.
func ArgsIdentity(payload string, members []string) (string, error) {
	pointers, err := (&Unique{Args: members}).pointers()
	if err != nil {
		return "", err
	}
	identity, err := argsIdentity([]byte(payload), pointers, (*codecs)(nil).fingerprint)
	if err != nil {
		return "", err
	}
	return identity, nil
}
