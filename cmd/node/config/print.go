package config

import (
	"io"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

// Changed returns the names of the settings that differ from those of old, sorted.
func (c Config) Changed(old Config) []string {
	var names []string
	now, before := reflect.ValueOf(c), reflect.ValueOf(old)
	var compare func(a, b reflect.Value)
	compare = func(a, b reflect.Value) {
		for i := range a.NumField() {
			field := a.Type().Field(i)
			name, options, _ := strings.Cut(field.Tag.Get("yaml"), ",")
			switch {
			case options == "inline":
				compare(a.Field(i), b.Field(i))
			case reflect.DeepEqual(a.Field(i).Interface(), b.Field(i).Interface()):
			case field.Name == "OrgKey":
				names = append(names, "orgs")
			case name != "-":
				names = append(names, name)
			}
		}
	}
	compare(now, before)
	slices.Sort(names)
	return names
}

// orgEntry is one organization in the file.
type orgEntry struct {
	KeyFile string `yaml:"key_file"`
}

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
