package pgqueue

// PoolerError explains an error that a pooler may have caused.
func PoolerError(err error) error { return poolerError(err) }
