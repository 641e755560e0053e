package pgqueue

// Inspector makes an inspector over the client's own pool, with its schema, logger and codecs, and without an audit log; see
// [NewInspector] for one over something else. It has nothing to close and ends with the pool.
func (c *Client) Inspector() *Inspector {
	return &Inspector{q: c.pool, store: c.store, client: c, logger: c.logger}
}
