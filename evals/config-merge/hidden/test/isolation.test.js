'use strict';

const test = require('node:test');
const assert = require('node:assert');
const { tenantConfig, preview } = require('../src/config');
const { overview } = require('../src/report');

// Every test looks at the settings of all tenants, so an order in which nothing leaks by luck does not help.
const pristine = {
  mail: { host: 'mail.internal', port: 25, tls: { required: false, versions: ['1.2', '1.3'] } },
  quota: { users: 50, storageGb: 10 },
  theme: { name: 'plain', colors: { accent: '#336699', text: '#111111' } },
  features: ['search'],
};

function everyTenantIsItself() {
  assert.deepStrictEqual(tenantConfig('nobody'), pristine);
  assert.deepStrictEqual(tenantConfig('borealis'), {
    ...pristine,
    theme: { name: 'night', colors: { accent: '#336699', text: '#eeeeee' } },
  });
  assert.deepStrictEqual(tenantConfig('acme'), {
    ...pristine,
    mail: { host: 'smtp.acme.example', port: 25, tls: { required: true, versions: ['1.2', '1.3'] } },
    quota: { users: 400, storageGb: 10 },
    features: ['search', 'export'],
  });
}

test('tenants do not see each other', () => {
  everyTenantIsItself();
  everyTenantIsItself();
});

test('the environment of one call stays in that call', () => {
  const env = { TENANT_mail__tls__required: 'true', TENANT_mail__port: '587', TENANT_quota: 'null', TENANT_extra__a: '1' };
  assert.strictEqual(tenantConfig('nobody', env).mail.tls.required, true);
  assert.strictEqual(tenantConfig('acme', env).quota, null);
  everyTenantIsItself();
});

test('a preview changes nothing', () => {
  const shown = preview('acme', { mail: { host: 'new.example', tls: { required: false } }, theme: { colors: { text: 'red' } } });
  assert.strictEqual(shown.mail.host, 'new.example');
  assert.strictEqual(shown.theme.colors.text, 'red');
  everyTenantIsItself();
});

test('the overview is the same in any order', () => {
  const lines = { nobody: 'nobody: mail.internal:25, 50 users', acme: 'acme: smtp.acme.example:25, 400 users' };
  assert.deepStrictEqual(overview(['acme', 'nobody']), [lines.acme, lines.nobody]);
  assert.deepStrictEqual(overview(['nobody', 'acme']), [lines.nobody, lines.acme]);
});
