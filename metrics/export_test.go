package metrics

// Definition is one metric, for the tests that check documentation, dashboard and rules.
type Definition struct {
	Name, Kind, Help string
	Labels           []string
}

// Definitions are all metrics of this package.
func Definitions() []Definition {
	var all []Definition
	for _, d := range definitions() {
		all = append(all, Definition{d.name, d.kind, d.help, d.labels})
	}
	return all
}

// DatabaseGauges are the names of the gauges that Run reads.
func DatabaseGauges() (names []string) {
	for _, d := range databaseDefinitions() {
		names = append(names, d.name)
	}
	return names
}
