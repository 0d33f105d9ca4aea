"""missing(), build(), Server, take_pictures: to come with the viewer."""
def missing(): return 'not built'
