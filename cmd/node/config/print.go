package config

import (
	"io"

	"github.com/goccy/go-yaml"
)

// Print writes the effective configuration without secrets, as YAML that --config takes, or as JSON.
func (c Config) Print(w io.Writer, asJSON bool) error {
	orgs := make(map[string]orgEntry, len(c.OrgKey))
	for org, path := range c.OrgKey {
		orgs[org] = orgEntry{KeyFile: path}
	}
	out, err := yaml.Marshal(struct {
		Config `yaml:",inline"`
		Orgs   map[string]orgEntry `yaml:"orgs"`
	}{c.Redacted(), orgs})
	if err == nil && asJSON {
		out, err = yaml.YAMLToJSON(out)
	}
	if err != nil {
		return err
	}
	_, err = w.Write(out)
	return err
}
