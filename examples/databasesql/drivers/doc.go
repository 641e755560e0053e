// Package drivers runs the tests of sqltx with lib/pq, which the core module does not depend on.
package drivers
