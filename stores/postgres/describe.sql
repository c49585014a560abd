WITH tables AS (
	SELECT oid, relname, relkind, relpersistence, relrowsecurity, relnamespace FROM pg_class
	WHERE relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = $1)
), lines AS (
	SELECT 'table ' || relname || CASE relpersistence WHEN 'p' THEN ' logged' WHEN 'u' THEN ' unlogged' ELSE ' temporary' END
		|| CASE WHEN relrowsecurity THEN ' with row security' ELSE '' END AS line FROM tables WHERE relkind = 'r'
	UNION ALL SELECT 'relation ' || relname || ' ' || relkind::text FROM tables WHERE relkind NOT IN ('r', 'i', 'c')
	UNION ALL SELECT 'column ' || c.relname || '.' || a.attname || ' ' || format_type(a.atttypid, a.atttypmod)
		|| CASE WHEN l.collname <> 'default' THEN ' ' || l.collname ELSE '' END
		|| CASE WHEN a.attnotnull THEN ' not null' ELSE '' END || CASE WHEN a.atthasdef THEN ' with a default' ELSE '' END
	FROM tables c JOIN pg_attribute a ON a.attrelid = c.oid LEFT JOIN pg_collation l ON l.oid = a.attcollation
	WHERE c.relkind IN ('r', 'c') AND a.attnum > 0 AND NOT a.attisdropped
	UNION ALL SELECT 'constraint ' || t.conname || ' ' || pg_get_constraintdef(t.oid) || CASE WHEN t.convalidated THEN '' ELSE ' not valid' END
	FROM tables c JOIN pg_constraint t ON t.conrelid = c.oid WHERE t.contype <> 'n'
	UNION ALL SELECT 'index ' || i.relname || ' ' || c.relname || ' ' || CASE WHEN x.indisunique THEN 'unique ' ELSE '' END
		|| x.indkey::text || coalesce(' ' || pg_get_expr(x.indpred, x.indrelid), '') || CASE WHEN x.indisvalid THEN '' ELSE ' invalid' END
	FROM tables c JOIN pg_index x ON x.indrelid = c.oid JOIN pg_class i ON i.oid = x.indexrelid
	UNION ALL SELECT 'trigger ' || g.tgname || ' ' || c.relname || ' ' || p.proname || ' ' || g.tgtype || ' ' || g.tgenabled::text
		|| CASE WHEN g.tgqual IS NULL AND g.tgattr::text = '' THEN '' ELSE ' sometimes' END
	FROM tables c JOIN pg_trigger g ON g.tgrelid = c.oid JOIN pg_proc p ON p.oid = g.tgfoid WHERE NOT g.tgisinternal
	UNION ALL SELECT 'rule ' || r.rulename || ' ' || c.relname FROM tables c JOIN pg_rewrite r ON r.ev_class = c.oid WHERE c.relkind = 'r'
	UNION ALL SELECT 'function ' || p.proname || '(' || pg_get_function_identity_arguments(p.oid) || ') '
		|| md5(replace(p.prosrc, chr(13), '')) || CASE WHEN p.prosecdef THEN ' definer' ELSE '' END
		|| coalesce(' ' || replace(p.proconfig::text, 'search_path=' || $1 || ',', 'search_path=SCHEMA,'), '')
	FROM pg_proc p WHERE p.pronamespace = (SELECT oid FROM pg_namespace WHERE nspname = $1)
)
SELECT line FROM lines ORDER BY line COLLATE "C"
