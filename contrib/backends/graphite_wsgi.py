"""Serves graphite-web 1.1.8 and its static files with gunicorn:
graphite_wsgi:application.

Debian 12's package needs three things to show a dashboard:

* graphite/wsgi.py reads whitenoise.__version__, which whitenoise 6 lacks, assumes
  an old version and fails; so this module wraps the application itself;
* STATICFILES_DIRS names a folder that Debian has moved, and the dashboard says
  "Invalid theme 'default'";
* dashboard.js calls htmlEncode, which is not defined, so no dashboard opens; this
  module prepends a definition.
"""
import os

os.environ.setdefault('DJANGO_SETTINGS_MODULE', 'graphite.settings')

from django.conf import settings  # noqa: E402

STATIC = settings.STATIC_ROOT
settings.STATICFILES_DIRS = (STATIC,)
settings.STATIC_ROOT = '/nonexistent'  # Django refuses one of STATICFILES_DIRS here

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
