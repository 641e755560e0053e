package console

import "slices"

// route is one path of the console. Tests walk the whole table.
type route struct {
	method string // GET (which serves HEAD) or POST
	path   string // below the prefix, as http.ServeMux has it
	role   Role   // the least that is needed
	handle func(*request) error
}

// routes is the table of all routes but the static files.
func (c *Console) routes() []route {
	return slices.Concat(
		overviewRoutes(),
		jobsRoutes(),
		jobRoutes(),
		attentionRoutes(),
		bulkRoutes(),
		operationsRoutes(),
		performanceRoutes(),
		samplesRoutes(),
		threeWorkersRoutes(),
		auditRoutes(),
		queuesRoutes(),
		schedulesRoutes(),
		workersRoutes(),
		databaseRoutes(),
	)
}
