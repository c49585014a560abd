package api

// Routes returns the method and path of every route, for the comparison with openapi.yaml.
func (s *Server) Routes() []string {
	var out []string
	for _, rt := range s.routes() {
		out = append(out, rt.method+" "+rt.pattern)
	}
	return out
}

// Codes returns every code that has a status of its own.
func Codes() []string {
	var out []string
	for code := range statuses {
		out = append(out, string(code))
	}
	return out
}
