// Package console is the web console of pgqueue, an [http.Handler] that mounts under any prefix of your server:
//
//	ui, err := console.New(console.Config{
//		Pool:          pool,
//		Prefix:        "/admin/jobs",
//		AllowedHosts:  []string{"ops.example.com"},
//		Authenticator: console.AuthenticatorFunc(whoIs),
//	})
//	mux.Handle("/admin/jobs/", ui)
//
// `pgqueue serve` serves the same by itself.
//
// It shows overview, jobs, queues, what needs attention, schedules, workers and the database's health, and acts on them for
// those who may. It is closed by default: without an [Authenticator] nothing is served, unless Config says that everybody
// may read, and nothing can ever be done by somebody whom nobody has named.
//
// # How it is built
//
// config.go is what users set; guard.go and its neighbours are what every request passes before any page (host, login, role,
// method, origin, token); routes.go is the table of all routes, which tests walk; page.go renders. Each screen is a file of
// handlers and one of templates/. Pages are rendered on the server and are complete without JavaScript; assets/ holds the
// TypeScript and the styles, static/ what is built of them and embedded.
//
// The package stands on pgqueue, schedule and doctor, and nothing below imports it.
package console
