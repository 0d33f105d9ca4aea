"""Serves graphite-web 1.1.8 and its static files with gunicorn:
graphite_wsgi:application.

Three faults keep the package of Debian 12 from showing a dashboard. This module works
around them:

* graphite/wsgi.py reads whitenoise.__version__ and fails with whitenoise 6, which does
  not define it; this module wraps the application without graphite/wsgi.py;
* STATICFILES_DIRS names a folder that Debian has moved, and the dashboard says
  "Invalid theme 'default'"; this module names the new folder;
* dashboard.js calls htmlEncode, which is not defined, so no dashboard opens; this
  module prepends a definition.
"""
import os

os.environ.setdefault('DJANGO_SETTINGS_MODULE', 'graphite.settings')

from django.conf import settings  # noqa: E402

STATIC = settings.STATIC_ROOT
settings.STATICFILES_DIRS = (STATIC,)
settings.STATIC_ROOT = '/nonexistent'  # must not be in STATICFILES_DIRS

from django.core.wsgi import get_wsgi_application  # noqa: E402
from whitenoise import WhiteNoise  # noqa: E402

_DASHBOARD_JS = '/static/js/dashboard.js'
_HTML_ENCODE = b'function htmlEncode(s) { return Ext.util.Format.htmlEncode(String(s)); }\n'

_graphite = WhiteNoise(get_wsgi_application(), root=STATIC, prefix='static/')


def application(environ, start_response):
    if environ.get('PATH_INFO') != _DASHBOARD_JS:
        return _graphite(environ, start_response)
    with open(os.path.join(STATIC, 'js/dashboard.js'), 'rb') as script:
        body = _HTML_ENCODE + script.read()
    start_response('200 OK', [('Content-Type', 'text/javascript'),
                              ('Content-Length', str(len(body)))])
    return [body]
