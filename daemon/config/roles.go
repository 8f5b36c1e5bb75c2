package config

import (
	"cmp"
	"maps"
	"slices"

	"polis/daemon/api"
	"polis/daemon/rules/approval"
)

// RoleModel returns the model of a role for agents of a base type; "" for the program's usual one.
func (c *Config) RoleModel(role, baseType string) string {
	r := c.Roles[role]
	return cmp.Or(r.Models[baseType], r.Model)
}

func (c *Config) checkModels() error {
	bad := func(field, model string) error {
		return api.Errorf(api.CodeInvalidConfig, "%s = %q: must be letters, digits and . _ : / @ + -, beginning with a letter or digit", field, api.Shorten(model, 64))
	}
	for _, name := range slices.Sorted(maps.Keys(c.Roles)) {
		r := c.Roles[name]
		if r.Model != "" && !modelName.MatchString(r.Model) {
			return bad("roles."+name+".model", r.Model)
		}
		for _, typ := range slices.Sorted(maps.Keys(r.Models)) {
			if !typeName.MatchString(typ) {
				return api.Errorf(api.CodeInvalidConfig, "roles.%s.models.%s: must be the name of a base type", name, api.Shorten(typ, 64))
			}
			if !modelName.MatchString(r.Models[typ]) {
				return bad("roles."+name+".models."+typ, r.Models[typ])
			}
		}
	}
	return nil
}

func (c *Config) checkTools() error {
	for _, name := range slices.Sorted(maps.Keys(c.Roles)) {
		if _, err := approval.Compile(c.Roles[name].Tools); err != nil {
			return api.Errorf(api.CodeInvalidConfig, "roles.%s.tools.%w", name, err)
		}
	}
	return nil
}
