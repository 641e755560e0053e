package integration

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/internal/pgproxy"
)

// startProxy puts a proxy in front of the server of the URL.
func startProxy(t *testing.T, location string) *pgproxy.Proxy {
	t.Helper()
	config, err := pgx.ParseConfig(location)
	if err != nil {
		t.Fatal(err)
	}
	network, address := "tcp", net.JoinHostPort(config.Host, strconv.Itoa(int(config.Port)))
	if strings.HasPrefix(config.Host, "/") {
		network, address = "unix", fmt.Sprintf("%s/.s.PGSQL.%d", config.Host, config.Port)
	}
	proxy, err := pgproxy.Start(network, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	return proxy
}

// throughProxy returns the keyword form of the URL with the proxy as its server.
func throughProxy(t *testing.T, location string, proxy *pgproxy.Proxy) string {
	t.Helper()
	config, err := pgx.ParseConfig(location)
	if err != nil {
		t.Fatal(err)
	}
	escape := func(s string) string {
		return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(s) + "'"
	}
	return fmt.Sprintf("host=%s port=%d user=%s password=%s dbname=%s sslmode=disable default_query_exec_mode=%s",
		proxy.Host(), proxy.Port(), escape(config.User), escape(config.Password), escape(config.Database),
		strings.ReplaceAll(config.DefaultQueryExecMode.String(), " ", "_"))
}
