package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pgqueue/pgqueue/console"
)

// serveFlags are how the console is served.
type serveFlags struct {
	listen         string
	users          string
	readOnly       bool
	prefix         string
	allowedHosts   []string
	trustedOrigins []string
	certificate    string
	key            string
	behindProxy    bool
	hide           []string
	timeout        time.Duration
	stopTimeout    time.Duration
}

func (a *app) serveCommand() *cobra.Command {
	var flags serveFlags
	command := &cobra.Command{
		Use: "serve", Short: "Serve the web console", Args: cobra.NoArgs,
		Long: `Serves the web console until it is stopped. It listens on this machine alone unless --listen says otherwise, and serves nobody whom
it does not know: --users names a file of people with hashed passwords, which pgqueue serve user makes the lines of. With
--read-only nobody can act, and without --users everybody who reaches the port may read everything, payloads too.

Beyond this machine passwords and payloads need TLS: --tls-cert and --tls-key, or a proxy in front that does it and --behind-proxy.
--allowed-host names the hosts by which browsers may address the console; a request for another is refused. GET /healthz answers
whether the process is up. A signal stops it: requests under way are finished.

To mount the console in a server of yours, with its own logins, see docs/console.md.`,
		Example: `  pgqueue serve user alice --role operator >> users
  pgqueue serve --users users
  pgqueue serve --read-only --listen localhost:9000
  pgqueue serve --users users --listen :8443 --tls-cert tls.crt --tls-key tls.key --allowed-host queues.example.com`,
		RunE: func(command *cobra.Command, _ []string) error { return a.serve(command.Context(), &flags) },
	}
	set := command.Flags()
	set.StringVar(&flags.listen, "listen", "127.0.0.1:8080", "address and port; port 0 is any free one")
	set.StringVar(&flags.users, "users", "", "file of users: name:role:hash, one a line")
	set.BoolVar(&flags.readOnly, "read-only", false, "nobody can act; without --users everybody who reaches the port may read")
	set.StringVar(&flags.prefix, "prefix", "", "path below which the console is, such as /queues")
	set.StringSliceVar(&flags.allowedHosts, "allowed-host", nil, "name by which browsers may address the console, without port (repeatable; default: this machine's loopback names)")
	set.StringSliceVar(&flags.trustedOrigins, "trusted-origin", nil, "origin whose forms are taken too, where a proxy changes the Host header (repeatable)")
	set.StringVar(&flags.certificate, "tls-cert", "", "file with the certificate and its chain; read again when it changes")
	set.StringVar(&flags.key, "tls-key", "", "file with the certificate's key")
	set.BoolVar(&flags.behindProxy, "behind-proxy", false, "listen beyond this machine without TLS: a proxy in front has it")
	set.StringSliceVar(&flags.hide, "hide", nil, "never show these: payload, metadata, result, progress, message")
	set.DurationVar(&flags.timeout, "timeout", console.DefaultTimeout, "how long an answer may take")
	set.DurationVar(&flags.stopTimeout, "stop-timeout", 10*time.Second, "how long requests under way have when it is stopped")
	command.MarkFlagsRequiredTogether("tls-cert", "tls-key")
	command.AddCommand(a.serveUserCommand())
	return command
}

// serve serves until ctx ends, which is no error.
func (a *app) serve(ctx context.Context, flags *serveFlags) error {
	config, err := a.consoleConfig(flags)
	if err != nil {
		return err
	}
	tls, err := flags.tls()
	if err != nil {
		return err
	}
	pool, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := a.installed(ctx, pool); err != nil {
		return err
	}
	config.Pool = pool
	ui, err := console.New(config)
	if err != nil {
		return &exitError{code: exitUsage, err: err}
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", flags.listen)
	if err != nil {
		err = fmt.Errorf("cannot listen: %w", err)
		_, noAddress := errors.AsType[*net.AddrError](err)
		_, noHost := errors.AsType[*net.DNSError](err)
		if noAddress || noHost { // no such port, no such address
			err = &exitError{code: exitUsage, err: err}
		}
		return withHint(err, "--listen ADDRESS:PORT chooses another; port 0 is any free one")
	}
	server := &http.Server{
		Handler: mounted(ui, flags.prefix), TLSConfig: tls, ErrorLog: slog.NewLogLogger(config.Logger.Handler(), slog.LevelWarn),
		ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, WriteTimeout: 10 * time.Minute, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: 64 << 10,
	}
	served := make(chan error, 1)
	go func() { // ends with Shutdown or Close, both below
		if tls != nil {
			served <- server.ServeTLS(listener, "", "")
		} else {
			served <- server.Serve(listener)
		}
	}()
	announced := a.announce(flags, listener.Addr(), pool.Config().ConnConfig.Database, tls != nil)
	select {
	case err = <-served: // cannot go on
	case <-ctx.Done():
		err = announced
	}
	return errors.Join(err, a.stopServing(server, ui, flags.stopTimeout))
}

// stopServing lets requests under way end, and then what the console does in the background.
func (a *app) stopServing(server *http.Server, ui *console.Console, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err := server.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		a.notef("requests were still under way after %s and are cut off", span(patience))
		err = server.Close()
	}
	if closed := ui.Close(ctx); closed != nil && !errors.Is(closed, context.DeadlineExceeded) {
		err = errors.Join(err, closed)
	}
	return err
}

// mounted is the console with what a process needs around it.
func mounted(ui http.Handler, prefix string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		fmt.Fprintln(w, "ok")
	})
	mux.Handle(prefix+"/", ui)
	if prefix != "" {
		mux.Handle("GET /{$}", http.RedirectHandler(prefix+"/", http.StatusFound))
	}
	return mux
}

// announce says where the console is.
func (a *app) announce(flags *serveFlags, address net.Addr, database string, encrypted bool) error {
	scheme, host := "http", address.String()
	if encrypted {
		scheme = "https"
	}
	if tcp, ok := address.(*net.TCPAddr); ok {
		switch {
		case len(flags.allowedHosts) > 0:
			host = net.JoinHostPort(strings.Trim(flags.allowedHosts[0], "[]"), fmt.Sprint(tcp.Port))
		case tcp.IP.IsUnspecified():
			host = net.JoinHostPort("localhost", fmt.Sprint(tcp.Port))
		}
	}
	where := scheme + "://" + host + flags.prefix + "/"
	if a.flags.json {
		return a.writeJSON(struct {
			URL      string `json:"url"`
			Address  string `json:"address"`
			Schema   string `json:"schema"`
			Database string `json:"database"`
			ReadOnly bool   `json:"read_only"`
		}{where, address.String(), a.schema(), database, flags.readOnly})
	}
	a.notef("the console is at %s (schema %q of database %q, listening on %s)", where, a.schema(), database, address)
	if flags.users == "" {
		a.notef("everybody who reaches this address may read everything, payloads too")
	}
	return nil
}

// consoleConfig is the console as the flags want it, apart from the pool.
func (a *app) consoleConfig(flags *serveFlags) (console.Config, error) {
	config := console.Config{
		Schema: a.schema(), Prefix: flags.prefix, TrustedOrigins: flags.trustedOrigins, Timeout: flags.timeout, Citus: a.flags.citus,
		Logger: a.loggerAt(slog.LevelInfo), ReadOnlyForAll: flags.readOnly && flags.users == "",
	}
	if flags.timeout <= 0 || flags.stopTimeout <= 0 {
		return config, usage("--timeout and --stop-timeout must be positive")
	}
	var err error
	if config.AllowedHosts, err = flags.hosts(); err != nil {
		return config, err
	}
	if config.Redact, err = hiding(flags.hide); err != nil {
		return config, err
	}
	if flags.users == "" {
		if !flags.readOnly {
			return config, withHint(usage("nobody is known who may use the console"),
				"pgqueue serve user NAME --role operator >> users makes a user, --users users serves those; or --read-only lets everybody read")
		}
		return config, nil
	}
	config.Authenticator, err = usersOf(flags.users, flags.readOnly)
	return config, err
}

// usersOf reads a file of users. With readOnly all of them are viewers.
func usersOf(path string, readOnly bool) (console.Authenticator, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, usage("--users: %w", err)
	}
	defer file.Close()
	users, err := console.ParseUsers(file)
	if err == nil {
		for i := range users {
			if readOnly {
				users[i].Role = console.Viewer
			}
		}
		var authenticator console.Authenticator
		if authenticator, err = console.BasicAuth(users...); err == nil {
			return authenticator, nil
		}
	}
	return nil, withHint(usage("--users %s: %w", visible(path), err), "pgqueue serve user NAME writes a line of the file")
}

// hosts are the names by which browsers may address the console; nil for those of the loopback interface. It refuses to send what is
// secret over a network as it is.
func (f *serveFlags) hosts() ([]string, error) {
	host, _, err := net.SplitHostPort(f.listen)
	if err != nil {
		return nil, usage("--listen must be ADDRESS:PORT, such as 127.0.0.1:8080 or :8080, not %q", f.listen)
	}
	address, notAddress := netip.ParseAddr(host)
	if host == "localhost" || notAddress == nil && address.IsLoopback() {
		return f.allowedHosts, nil
	}
	if f.certificate == "" && !f.behindProxy {
		return nil, withHint(usage("--listen %s is reachable from other machines, and passwords and payloads would pass the network as they are", f.listen),
			"give --tls-cert and --tls-key; or, where a proxy in front has TLS, --behind-proxy")
	}
	if len(f.allowedHosts) > 0 {
		return f.allowedHosts, nil
	}
	if host == "" || notAddress == nil && address.IsUnspecified() {
		return nil, withHint(usage("--listen %s takes requests for any host", f.listen),
			"--allowed-host queues.example.com names the one by which browsers address the console; others are refused, which stops DNS rebinding")
	}
	return []string{host}, nil
}

// hiding hides fields. Nil: nothing is hidden.
func hiding(fields []string) (console.RedactFunc, error) {
	for _, field := range fields {
		if !slices.Contains([]string{"payload", "metadata", "result", "progress", "message"}, field) {
			return nil, usage("--hide: there is no field %q: payload, metadata, result, progress, message", field)
		}
	}
	if len(fields) == 0 {
		return nil, nil
	}
	return func(_ context.Context, about console.Redaction, value json.RawMessage) json.RawMessage {
		if slices.Contains(fields, about.Field) {
			return json.RawMessage(`"(hidden)"`)
		}
		return value
	}, nil
}
